// SPDX-License-Identifier: GPL-2.0-only
//! The simplest world (simulated machine) in which a program can run.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use bpf::engine::{ANY, Body, Engine, Func, Row, Vm, World};
use bpf::fault::Fault;
use bpf::image::{Code, LocalTypes, MapDef};
use bpf::map::Map;
use bpf::memory::{ObjectType, Region, Slab};
use bpf::rows::{CALL, PLAIN, V6_12};
use bpf::sanitizer::{Globals, Rules};

pub const NR_CPUS: u32 = 70;
/// Context bits of the tests. `HERE` is the context (kind of callback) in which programs run.
/// `ELSEWHERE` is another context.
pub const HERE: u32 = 1;
pub const ELSEWHERE: u32 = 2;

static TASK: ObjectType = ObjectType {
    name: "task_struct",
    writable: &[],
    parts: &[],
    field_at: |offset| format!("byte {offset}"),
};

pub struct TestWorld {
    pub region: Rc<Region>,
    pub vm: Option<Rc<Vm<TestWorld>>>,
    /// Whether programs are loaded with the sanitizer.
    pub sanitized: bool,
    /// Address of 4 KiB of memory for programs.
    pub memory: u64,
    pub task: u64,
    pub tasks: Slab,
    /// A task that has exited.
    pub gone: Option<u64>,
    /// Lines that programs have printed, and a line for each kernel object that was released.
    pub log: Vec<String>,
    /// Each acquisition (`true`) and release (`false`) of a lock by programs, in order, with the
    /// address of the lock.
    pub locks: Vec<(u64, bool)>,
    /// For each pending timer, by its address, the argument `ns` with which it was started.
    pub timers: BTreeMap<u64, u64>,
    random: u32,
    distributed: u32,
}

impl TestWorld {
    pub fn new() -> TestWorld {
        TestWorld::with(Region::new().expect("the host has address space for a region"))
    }

    pub fn with(region: Region) -> TestWorld {
        TestWorld::on(Rc::new(region))
    }

    /// Returns a second world with the region and the program of `other`.
    pub fn sharing(other: &TestWorld) -> TestWorld {
        TestWorld {
            vm: other.vm.clone(),
            ..TestWorld::on(Rc::clone(&other.region))
        }
    }

    fn on(region: Rc<Region>) -> TestWorld {
        let memory = region.pages(4096).expect("the region has this memory");
        let mut tasks = region.slab(&TASK, 256, 16).expect("the region has room for the slab");
        let task = tasks.alloc(&region).expect("the slab has room for a task");
        TestWorld {
            region,
            vm: None,
            sanitized: false,
            memory,
            task,
            tasks,
            gone: None,
            log: Vec::new(),
            locks: Vec::new(),
            timers: BTreeMap::new(),
            random: 1,
            distributed: 0,
        }
    }

    /// Loads a program, after resetting all state that an earlier program may have changed.
    pub fn load(
        &mut self,
        code: Code,
        maps: &[MapDef],
        types: LocalTypes,
        engine: Engine,
    ) -> Result<(), bpf::error::Error> {
        self.vm = None;
        self.random = 1;
        self.distributed = 0;
        self.region
            .fill(self.memory, 4096, 0)
            .expect("the region has this memory");
        let maps = maps
            .iter()
            .map(|def| Map::create(def, &self.region, NR_CPUS))
            .collect::<Result<_, _>>()?;
        let region = self.region.clone();
        self.vm = Some(Rc::new(match self.sanitized {
            true => Vm::with_sanitizer(code, maps, types, &funcs(), region, engine, self.rules())?,
            false => Vm::new(code, maps, types, &funcs(), region, engine)?,
        }));
        self.vm().set_contexts(HERE);
        Ok(())
    }
}

impl TestWorld {
    /// Returns the program, which no other world shares.
    pub fn vm_mut(&mut self) -> &mut Vm<TestWorld> {
        let vm = self.vm.as_mut().expect("the test has loaded a program");
        Rc::get_mut(vm).expect("no other world has the program")
    }

    /// Returns the sanitizer's rules. They treat `memory` as a section of globals, and a
    /// task_struct as read-only.
    fn rules(&self) -> Rules {
        let memory = Globals {
            name: "memory".into(),
            addr: self.memory,
            size: 4096,
            writable: true,
            fields: Vec::new(),
        };
        Rules {
            objects: self.region.object_types(),
            sections: vec![memory],
            ..Rules::default()
        }
    }
}

/// Makes a kfunc for a test.
pub fn kfunc<Args, F: Body<TestWorld, Args>>(contexts: u32, proto: &'static str, run: F) -> Func<TestWorld> {
    let row = Row {
        proto,
        releases: (V6_12..).into(),
        contexts,
        rules: PLAIN,
        native: CALL,
        now: "",
    };
    Func::kfunc(row, run)
}

/// Returns the helpers and kfuncs of the crate, and kfuncs for tests.
pub fn funcs() -> Vec<Func<TestWorld>> {
    let mut funcs = bpf::helper::table();
    funcs.extend([
        kfunc(ANY, "u64 test_mix(u64 a, u64 b, u64 c, u64 d, u64 e)", mix),
        kfunc(ANY, "void test_fail(void)", |_: &mut TestWorld| -> Result<(), Fault> {
            Err(Fault::func("test_fail fails"))
        }),
        kfunc(ANY, "u64 test_executed(void)", |w: &mut TestWorld| w.vm().executed()),
        kfunc(
            ANY,
            "u64 test_call(u64 callback, u64 arg)",
            |w: &mut TestWorld, callback: u64, arg: u64| Vm::call_address(w, callback, [arg, 0, 0, 0, 0]),
        ),
        // Like test_call, but returns -1 if the callback faults.
        kfunc(
            ANY,
            "u64 test_try(u64 callback, u64 arg)",
            |w: &mut TestWorld, callback: u64, arg: u64| {
                let dropped = String::from("abc");
                Vm::call_address(w, callback, [arg, dropped.len() as u64, 0, 0, 0]).unwrap_or(u64::MAX)
            },
        ),
        // Reads an address as the simulator's own code would do, to imitate a bug of the simulator.
        kfunc(
            ANY,
            "void test_crash(u64 addr)",
            // SAFETY: none. The test expects a signal.
            |_: &mut TestWorld, addr: u64| unsafe { (addr as *const u64).read_volatile() },
        ),
        // Returns an address on the thread's stack.
        kfunc(ANY, "u64 test_stack(void)", |_: &mut TestWorld| {
            let here = 0u8;
            std::hint::black_box(&raw const here) as u64
        }),
        // Calls the callback in a second world, which is gone when the call returns.
        kfunc(
            ANY,
            "u64 test_inner(u64 callback)",
            |w: &mut TestWorld, callback: u64| {
                let mut inner = TestWorld::sharing(w);
                Vm::call_address(&mut inner, callback, [0; 5])
            },
        ),
        // Appends a line to the log and returns the number of lines.
        kfunc(ANY, "u64 test_note(void)", |w: &mut TestWorld| {
            w.log.push("note".into());
            w.log.len() as u64
        }),
        // Returns whether the running program refuses to be dropped.
        kfunc(ANY, "bool test_drop(void)", |w: &mut TestWorld| {
            let vm = w.vm.take();
            catch_unwind(AssertUnwindSafe(|| drop(vm))).is_err()
        }),
        kfunc(HERE, "u64 test_here(void)", |_: &mut TestWorld| 7u64),
        kfunc(ELSEWHERE, "u64 test_elsewhere(void)", |_: &mut TestWorld| 8u64),
        kfunc(ANY, "s32 test_s32(s32 a)", |_: &mut TestWorld, a: i32| a),
    ]);
    funcs
}

fn mix(_: &mut TestWorld, a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    [a, b, c, d, e]
        .iter()
        .fold(7, |sum: u64, x| sum.rotate_left(9).wrapping_mul(31).wrapping_add(*x))
}

impl World for TestWorld {
    fn region(&self) -> &Region {
        &self.region
    }
    fn vm(&self) -> &Vm<TestWorld> {
        self.vm.as_ref().expect("the test has loaded a program")
    }
    fn now_ns(&self) -> u64 {
        1_000_000
    }
    fn coarse_ns(&self) -> u64 {
        0
    }
    fn jiffies(&self) -> u64 {
        4_294_937_296
    }
    fn cpu(&self) -> u32 {
        3
    }
    fn nr_cpu_ids(&self) -> u32 {
        NR_CPUS
    }
    fn distributed_cpu(&self) -> u32 {
        self.distributed
    }
    fn set_distributed_cpu(&mut self, cpu: u32) {
        self.distributed = cpu;
    }
    fn nr_node_ids(&self) -> u32 {
        2
    }
    fn irqs_disabled(&self) -> bool {
        false
    }
    fn per_cpu_offset(&mut self, cpu: u32) -> u64 {
        u64::from(cpu) * 16
    }
    fn current_task(&self) -> u64 {
        self.task
    }
    fn current_pid_tgid(&self) -> u64 {
        (41 << 32) | 42
    }
    fn current_comm(&self) -> [u8; 16] {
        *b"tester\0\0\0\0\0\0\0\0\0\0"
    }
    fn prandom_u32(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }
    fn log(&mut self, line: String) -> Result<(), Fault> {
        self.log.push(line);
        Ok(())
    }
    fn release_object(&mut self, object: u64) {
        self.log.push(format!("released {}", object == self.task));
    }
    fn can_own_storage(&self, _kind: u32, owner: u64) -> Result<bool, Fault> {
        Ok(self.gone != Some(owner))
    }
    fn spin_lock(&mut self, lock: u64) -> Result<(), Fault> {
        self.locks.push((lock, true));
        Ok(())
    }
    fn spin_unlock(&mut self, lock: u64) {
        self.locks.push((lock, false));
    }
    fn timer_start(&mut self, timer: u64, ns: u64, _flags: u64) -> Result<(), Fault> {
        self.timers.insert(timer, ns);
        Ok(())
    }
    fn timer_cancel(&mut self, timer: u64) -> bool {
        self.timers.remove(&timer).is_some()
    }
}
