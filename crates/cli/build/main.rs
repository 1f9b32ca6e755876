//! Generates the descriptions before the program is compiled, and sets linker options.

#![allow(clippy::disallowed_methods, reason = "a build script is told everything by the environment")]

mod link;
mod prose;

fn main() {
    println!("cargo::rerun-if-changed=build");
    prose::write();
    link::pack_relocations();
}
