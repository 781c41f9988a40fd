//! Writes the C, P4 and Python definitions of the packet format; with `--check`, says which are out of date.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use wiresum_wire::bindings::{OUTPUTS, REGENERATE};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => write().map(|()| ExitCode::SUCCESS),
        ["--check"] => check(),
        _ => {
            eprintln!("usage: generate [--check]");
            Ok(ExitCode::from(2))
        }
    }
}

fn write() -> io::Result<()> {
    for output in &OUTPUTS {
        let path = Path::new(ROOT).join(output.path);
        fs::create_dir_all(path.parent().expect("an output lies in a folder"))?;
        fs::write(path, (output.contents)())?;
        println!("wrote {}", output.path);
    }
    Ok(())
}

fn check() -> io::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for output in &OUTPUTS {
        if fs::read_to_string(Path::new(ROOT).join(output.path)).ok() != Some((output.contents)()) {
            eprintln!("{} is out of date: run `{REGENERATE}`", output.path);
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
