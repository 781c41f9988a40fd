//! Compiles `bpf/` with clang. Without Linux or clang the crate becomes a stub, with a warning that says how to get the real one.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use wiresum_wire::Policy;

/// Tried in order after `$CLANG`: newest first, since each version optimises BPF better than the one before.
const CLANGS: [&str; 7] =
    ["clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang"];
const PROGRAMS: [&str; 5] = ["aggregator", "bench", "cipher", "pass", "steer"];
fn main() {
    println!("cargo:rerun-if-changed=../../bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let Some(clang) = find_clang() else {
        println!(
            "cargo:warning=no clang: the engine `xdp` is left out of this build; \
             on Debian: apt-get install clang-19 libelf-dev zlib1g-dev linux-libc-dev"
        );
        return;
    };
    for program in PROGRAMS {
        compile(&clang, &format!("{program}.bpf.c"), program, &[]);
    }
    for program in ["program", "bench"] {
        compile(&clang, &format!("rows/{program}.bpf.c"), &format!("rows-{program}"), &[]);
    }
    compile(&clang, "keyed/program.bpf.c", "keyed-program", &[]);
    for policy in Policy::ALL.map(Policy::kernel_program).into_iter().collect::<BTreeSet<_>>() {
        let header = format!("-DPOLICY=\"policy_{policy}.h\"");
        compile(&clang, "switch/program.bpf.c", &format!("switch-{policy}"), &[&header]);
        compile(&clang, "switch/bench.bpf.c", &format!("switch-bench-{policy}"), &[&header]);
    }
    println!("cargo:rustc-cfg=wiresum_bpf");
    println!("cargo:bpf=1");
}

fn find_clang() -> Option<String> {
    let named = env::var("CLANG").ok();
    let candidates = named.into_iter().chain(CLANGS.map(str::to_owned));
    candidates.into_iter().find(|clang| {
        let targets = Command::new(clang).arg("--print-targets").output();
        targets.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("bpf"))
    })
}

fn compile(clang: &str, source: &str, object: &str, defines: &[&str]) {
    let source = PathBuf::from("../../bpf").join(source);
    let object =
        PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join(format!("{object}.bpf.o"));
    let libbpf = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let big_endian = env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("big");
    let mut command = Command::new(clang);
    command
        .args(["-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
        .args(["-target", if big_endian { "bpfeb" } else { "bpfel" }])
        .args(defines)
        .arg(format!("-I{libbpf}"))
        .args(architecture_headers().map(|path| format!("-idirafter{}", path.display())))
        .args([Path::new("-c"), &source, Path::new("-o"), &object]);
    let output = command.output().expect("clang runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{clang} cannot compile {}:\n{words}", source.display());
}

/// Where Debian and its kin keep `asm/types.h`; elsewhere it is in the compiler's own path.
fn architecture_headers() -> Option<PathBuf> {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("set by cargo");
    Some(PathBuf::from(format!("/usr/include/{architecture}-linux-gnu")))
        .filter(|path| path.is_dir())
}
