//! Whether the programs for the kernel are in this build, as `wiresum-xdp` says.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("DEP_WIRESUM_XDP_BPF").is_some() {
        println!("cargo:rustc-cfg=wiresum_bpf");
    }
}
