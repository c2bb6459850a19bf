// SPDX-License-Identifier: GPL-2.0-only
//! Test policies. Each is a `tests/policies/NAME.bpf.c` that is compiled by clang and loaded into a
//! machine.

pub mod corpus;

use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::Machine;
use kernel::ext::{self, Exit};
use kernel::load::{LoadError, load};
use profile::Profile;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::Record;

/// Returns the path of the object compiled from `NAME.bpf.c` with `defines`.
pub fn compile(name: &str, defines: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/policies")
        .join(format!("{name}.bpf.c"));
    let variant: String = defines
        .concat()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    let id = std::thread::current().id();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{variant}{id:?}.bpf.o"));
    let flags = ["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-Wall", "-Werror", "-c"];
    let done = Command::new("clang-19")
        .args(flags)
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .output()
        .expect("clang-19 is installed");
    assert!(
        done.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    out
}

/// A machine with a loaded policy, and the records of its run.
pub struct Run {
    pub machine: Machine,
    pub image: Image,
    pub records: Vec<Record>,
}

impl Run {
    /// Loads the test policy `NAME.bpf.c`.
    ///
    /// # Errors
    /// Returns the exit record if the policy could not be enabled. The machine can still be used.
    pub fn load(machine: &mut Machine, name: &str, defines: &[&str]) -> Result<Image, Box<Exit>> {
        Run::load_file(machine, &compile(name, defines))
    }

    pub fn load_file(machine: &mut Machine, path: &Path) -> Result<Image, Box<Exit>> {
        let bytes = std::fs::read(path).expect("an object");
        let object = Object::parse(&bytes, &path.to_string_lossy()).expect("a BPF object");
        match load(machine, &object, &Profile::default(), Engine::default()) {
            Ok(image) => Ok(image),
            Err(LoadError::Refused(exit)) => Err(exit),
            Err(LoadError::Input(message)) => panic!("{message}"),
        }
    }

    /// Loads a policy that is expected to load.
    pub fn new(mut machine: Machine, name: &str, defines: &[&str]) -> Run {
        let image = Run::load(&mut machine, name, defines).unwrap_or_else(|exit| panic!("{exit}"));
        Run {
            machine,
            image,
            records: Vec::new(),
        }
    }

    /// Runs until `until` ns.
    pub fn run(&mut self, until: u64) -> &mut Run {
        self.machine.run(until, &mut self.records);
        self
    }

    /// Returns a global variable as a number.
    pub fn var(&self, name: &str) -> u64 {
        let text = self.image.get(&self.machine.region, name).expect("a variable");
        text.parse::<i128>().unwrap_or_else(|_| panic!("{name} is {text}")) as u64
    }

    pub fn exit(&self) -> &Exit {
        self.machine.ext.exit.as_ref().expect("the policy has ended")
    }

    /// Checks that the policy is enabled.
    pub fn assert_alive(&self) {
        if let Some(exit) = &self.machine.ext.exit {
            panic!("{exit}");
        }
        assert_eq!(self.machine.ext.state, ext::EnableState::Enabled);
    }

    pub fn unload(&mut self) -> &Exit {
        ext::unload(&mut self.machine);
        self.exit()
    }
}
