// SPDX-License-Identifier: GPL-2.0-only
//! Test policies. Each of them is a file `tests/policies/NAME.bpf.c`. Clang compiles the file, and
//! the object is then loaded into a machine.

pub mod corpus;

use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::Machine;
use kernel::ext::{self, Exit};
use kernel::load::{LoadError, load};
use profile::Profile;
use std::path::{Path, PathBuf};
use trace::Record;

/// Returns the object of `NAME.bpf.c`, compiled with `defines`.
pub fn compile(name: &str, defines: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/policies")
        .join(format!("{name}.bpf.c"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("kernel")
        .join(format!("{name}-{:016x}.bpf.o", clang::fingerprint(defines)));
    if cfg!(miri) {
        return object; // Miri cannot start clang. Another run of the tests has compiled the policy.
    }
    let defines: Vec<_> = defines.iter().map(|define| format!("-D{define}")).collect();
    let warnings = ["-g", "-Wall", "-Werror"].into_iter();
    let options: Vec<_> = warnings.chain(defines.iter().map(String::as_str)).collect();
    clang::compile(&source, &options, &object).unwrap_or_else(|error| panic!("{error}"));
    object
}

/// A machine with a loaded policy, and the trace records of its run.
pub struct Run {
    pub machine: Machine,
    pub image: Image,
    pub records: Vec<Record>,
}

impl Run {
    /// Loads the test policy `NAME.bpf.c`.
    ///
    /// # Errors
    /// The policy could not be enabled. The error is its exit record. The machine can still be used
    /// afterwards.
    pub fn load(machine: &mut Machine, name: &str, defines: &[&str]) -> Result<Image, Box<Exit>> {
        Run::load_file(machine, &compile(name, defines))
    }

    pub fn load_file(machine: &mut Machine, path: &Path) -> Result<Image, Box<Exit>> {
        Run::load_with(machine, path, Engine::default())
    }

    fn load_with(machine: &mut Machine, path: &Path, engine: Engine) -> Result<Image, Box<Exit>> {
        let bytes = std::fs::read(path).expect("an object");
        let object = Object::parse(&bytes, &path.to_string_lossy()).expect("a BPF object");
        match load(machine, &object, &Profile::default(), engine) {
            Ok(image) => Ok(image),
            Err(LoadError::Refused(exit)) => Err(exit),
            Err(LoadError::Input(error)) => panic!("{error}"),
        }
    }

    /// Loads a test policy. Panics if it cannot be loaded.
    pub fn new(machine: Machine, name: &str, defines: &[&str]) -> Run {
        Run::with_engine(machine, name, defines, Engine::default())
    }

    /// Like [`Run::new`], with a certain engine.
    pub fn with_engine(mut machine: Machine, name: &str, defines: &[&str], engine: Engine) -> Run {
        let path = compile(name, defines);
        let image = Run::load_with(&mut machine, &path, engine).unwrap_or_else(|exit| panic!("{exit}"));
        Run {
            machine,
            image,
            records: Vec::new(),
        }
    }

    /// Runs the machine until the time `until` in ns.
    pub fn run(&mut self, until: u64) -> &mut Run {
        self.machine.run(until, &mut self.records);
        self
    }

    /// Returns the value of a global variable of the policy as a number. Panics if the variable is
    /// not an integer, for example an array.
    pub fn var(&self, name: &str) -> u64 {
        let text = self.image.get(self.machine.region(), name).expect("a variable");
        let number = text.parse::<i128>();
        number.unwrap_or_else(|_| panic!("{name} is not an integer, its value is {text}")) as u64
    }

    pub fn exit(&self) -> &Exit {
        self.machine.ext().exit.as_ref().expect("the policy has ended")
    }

    /// Checks that the policy is still enabled.
    pub fn assert_alive(&self) {
        if let Some(exit) = &self.machine.ext().exit {
            panic!("{exit}");
        }
        assert_eq!(self.machine.ext().state, ext::EnableState::Enabled);
    }

    pub fn unload(&mut self) -> &Exit {
        ext::unload(&mut self.machine);
        self.exit()
    }
}
