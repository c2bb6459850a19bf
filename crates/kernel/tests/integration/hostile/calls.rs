// SPDX-License-Identifier: GPL-2.0-only
//! Generates hostile policies, which call all available functions with random arguments. Most
//! arguments are nearly valid, so that the calls do not all fail at the first check. The test
//! `hostile` and the fuzz target `policy` use this generator. The test passes a seed to it, the fuzz
//! target a sequence of bytes.

use bpf::engine::Func;
use bpf::image::{CALL, CALL_HELPER, CALL_KFUNC, FUNC_BASE, Insn, LD_IMM64};
use bpf::insn::{self, alu, jmp};
use bpf::link::Image;
use kernel::Machine;
use random::Random;

fn number(random: &mut Random) -> i64 {
    let bit = 1i64 << random.below(63);
    let edges = [
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        16,
        24,
        64,
        100,
        512,
        4096,
        -1,
        -2,
        -22,
        i64::MAX,
        i64::MIN,
        0xffff_ffff,
        0x8000_0000,
        1 << 32,
    ];
    match random.below(8) {
        0 => bit,
        1 => -bit,
        _ => random.pick(&edges),
    }
}

/// A function that the policy can call.
struct Callee {
    name: &'static str,
    op: Insn,
    params: Vec<&'static str>,
}

/// Number of 8-byte words in the stack frame that store values for later calls. The words are at
/// r10-8, r10-16 and so on.
const SLOTS: u64 = 12;
/// Start of the memory in the stack that is passed to functions. It lies below the words with
/// values. Iterators, dynptrs and IRQ flags have fixed offsets in this memory.
const MEMORY: i64 = -200;
const ITERATOR: i64 = -152;
const DYNPTRS: [i64; 2] = [-216, -232];
const FLAGS: i64 = -240;
const STACK: u32 = 256;

/// Register that contains the context of the callback.
const CONTEXT: u8 = 6;

/// Callbacks and the numbers of their arguments.
const CALLBACKS: [(&str, i32); 17] = [
    ("select_cpu", 3),
    ("enqueue", 2),
    ("dequeue", 2),
    ("dispatch", 2),
    ("tick", 1),
    ("runnable", 2),
    ("running", 1),
    ("stopping", 2),
    ("quiescent", 2),
    ("set_cpumask", 2),
    ("update_idle", 2),
    ("enable", 1),
    ("disable", 1),
    ("dump", 1),
    ("init", 0),
    ("init_task", 2),
    ("exit", 1),
];

/// Pairs of functions: the first one returns a reference, and the second one releases it.
const PAIRS: [(&str, &str); 9] = [
    ("bpf_task_acquire", "bpf_task_release"),
    ("bpf_task_from_pid", "bpf_task_release"),
    ("bpf_cgroup_from_id", "bpf_cgroup_release"),
    ("scx_bpf_task_cgroup", "bpf_cgroup_release"),
    ("bpf_cpumask_create", "bpf_cpumask_release"),
    ("bpf_obj_new_impl", "bpf_obj_drop_impl"),
    ("bpf_obj_new", "bpf_obj_drop"),
    ("scx_bpf_get_idle_cpumask", "scx_bpf_put_idle_cpumask"),
    ("scx_bpf_get_online_cpumask", "scx_bpf_put_cpumask"),
];

struct Generator<'a, 'b, 'c> {
    random: &'a mut Random<'b>,
    insns: Vec<Insn>,
    callees: &'c [Callee],
    image: &'c Image,
    functions: u64,
    /// For each word, the type of the value in it, or an empty text if the type is unknown.
    slots: [&'static str; SLOTS as usize],
}

/// Replaces the code of the callbacks in the image by random calls.
pub fn put(image: &mut Image, table: &[Func<Machine>], random: &mut Random) {
    let active: Vec<&str> = (0..1 + random.below(3)).map(|_| random.pick(&CALLBACKS).0).collect();
    let mut code = std::mem::take(&mut image.code);
    let insns = std::mem::take(&mut code.insns);
    code.kfuncs = kfuncs(&code.kfuncs, table);
    let callees = callees(&code.kfuncs, table);
    let ops = image.struct_ops[0].programs.clone();
    let functions = code.functions.len() as u64;
    for (index, function) in code.functions.iter_mut().enumerate() {
        let start = code.insns.len();
        let member = CALLBACKS.iter().find(|(name, _)| ops.get(*name) == Some(&index));
        match member {
            None => code.insns.extend_from_slice(&insns[function.start..function.end]),
            Some(&(name, args)) => {
                let mut g = Generator {
                    random,
                    insns: Vec::new(),
                    callees: &callees,
                    image,
                    functions,
                    slots: [""; SLOTS as usize],
                };
                g.callback(name, args, active.contains(&name));
                code.insns.append(&mut g.insns);
                function.stack = STACK;
                function.lines.clear();
            }
        }
        (function.start, function.end) = (start, code.insns.len());
    }
    image.code = code;
}

/// Returns the names of all kfuncs, first those that the object itself calls.
fn kfuncs(own: &[String], table: &[Func<Machine>]) -> Vec<String> {
    let mut names = own.to_vec();
    for func in table {
        if func.helper.is_none() && !names.iter().any(|name| name == func.name) {
            names.push(func.name.to_string());
        }
    }
    names
}

/// Returns all functions of the table, in the form in which instructions call them.
fn callees(names: &[String], table: &[Func<Machine>]) -> Vec<Callee> {
    let callee = |func: &Func<Machine>| {
        let (src, imm) = match func.helper {
            Some(number) => (CALL_HELPER, i64::from(number)),
            None => {
                let at = names.iter().position(|name| name == func.name);
                (CALL_KFUNC, at.expect("the list has all kfuncs") as i64)
            }
        };
        let params = func.proto.split_once('(').map_or("", |proto| proto.1);
        let op = Insn {
            op: CALL,
            dst: 0,
            src,
            off: 0,
            imm,
        };
        Callee {
            name: func.name,
            op,
            params: params.split(',').collect(),
        }
    };
    table.iter().map(callee).collect()
}

impl Generator<'_, '_, '_> {
    fn emit(&mut self, op: u8, dst: u8, src: u8, off: i32, imm: i64) {
        self.insns.push(Insn { op, dst, src, off, imm });
    }

    fn constant(&mut self, reg: u8, value: i64) {
        self.emit(LD_IMM64, reg, 0, 0, value);
    }

    /// Emits code that sets a register to a stack address.
    fn stack(&mut self, reg: u8, offset: i64) {
        self.emit(insn::ALU64 | alu::MOV | insn::X, reg, insn::FP, 0, 0);
        self.emit(insn::ALU64 | alu::ADD, reg, 0, 0, offset);
    }

    fn load_slot(&mut self, reg: u8, slot: u64) {
        let off = -8 * (slot as i32 + 1);
        self.emit(insn::LDX | insn::MEM | insn::DW, reg, insn::FP, off, 0);
    }

    fn store_slot(&mut self, slot: u64, kind: &'static str) {
        self.emit(insn::STX | insn::MEM | insn::DW, insn::FP, 0, -8 * (slot as i32 + 1), 0);
        self.slots[slot as usize] = kind;
    }

    /// Emits the code of a callback. The code of an active callback makes random calls and then
    /// returns a valid result.
    fn callback(&mut self, name: &str, args: i32, active: bool) {
        self.emit(insn::ALU64 | alu::MOV | insn::X, CONTEXT, 1, 0, 0);
        if active {
            self.prologue(name, args);
            for _ in 0..1 + self.random.below(8) {
                self.step();
            }
            self.release();
        }
        match name {
            "select_cpu" => self.emit(insn::LDX | insn::MEM | insn::DW, 0, CONTEXT, 8, 0),
            "enqueue" => {
                self.emit(insn::LDX | insn::MEM | insn::DW, 1, CONTEXT, 0, 0);
                self.constant(2, (1u64 << 63 | 1) as i64);
                self.constant(3, 1_000_000);
                self.constant(4, 0);
                self.call("scx_bpf_dsq_insert");
                self.emit(insn::ALU64 | alu::MOV, 0, 0, 0, 0);
            }
            _ => self.emit(insn::ALU64 | alu::MOV, 0, 0, 0, 0),
        }
        self.emit(insn::EXIT, 0, 0, 0, 0);
    }

    fn call(&mut self, name: &str) {
        let op = self
            .callees
            .iter()
            .find(|callee| callee.name == name)
            .expect("the table has this function")
            .op;
        self.insns.push(op);
    }

    /// Emits code that stores the callback's arguments, the address of a map element and some
    /// numbers into the words for values.
    fn prologue(&mut self, name: &str, args: i32) {
        for at in (MEMORY..-8 * SLOTS as i64).step_by(8) {
            self.emit(insn::ST | insn::MEM | insn::DW, insn::FP, 0, at as i32, 0);
        }
        for slot in 0..SLOTS {
            self.emit(insn::ALU64 | alu::MOV, 0, 0, 0, slot as i64);
            self.store_slot(slot, "number");
        }
        for arg in 0..args {
            self.emit(insn::LDX | insn::MEM | insn::DW, 0, CONTEXT, 8 * arg, 0);
            let task = arg == 0 && !matches!(name, "dispatch" | "update_idle" | "dump" | "exit");
            self.store_slot(arg as u64, if task { "task" } else { "argument" });
        }
        let Some(array) = self.image.maps.iter().find(|map| map.name == "array") else {
            return;
        };
        let array = array.handle as i64;
        self.constant(1, array);
        self.stack(2, MEMORY);
        self.call("bpf_map_lookup_elem");
        self.store_slot(3, "value");
    }

    /// Emits one random call or one random memory access.
    fn step(&mut self) {
        if self.random.chance(10) {
            return self.access();
        }
        let callee = &self.callees[self.random.below(self.callees.len() as u64) as usize];
        for reg in 1..=5u8 {
            let param = callee.params.get(usize::from(reg) - 1).copied().unwrap_or("");
            self.argument(reg, param, callee.op.src == CALL_HELPER);
        }
        self.insns.push(callee.op);
        let slot = 4 + self.random.below(SLOTS - 4);
        self.store_slot(slot, callee.name);
    }

    /// Emits a load or a store through the value in one of the words.
    fn access(&mut self) {
        let (slot, off) = (self.random.below(SLOTS), self.random.pick(&[0, 8, 16, 64, 512, -8]));
        let size = self.random.pick(&[insn::B, insn::H, insn::W, insn::DW]);
        self.load_slot(7, slot);
        match self.random.below(2) {
            0 => self.emit(insn::LDX | insn::MEM | size, 0, 7, off, 0),
            _ => self.emit(insn::ST | insn::MEM | size, 7, 0, off, -1),
        }
    }

    /// Returns the last word whose value has one of these types.
    fn slot_with(&mut self, kind: &[&str]) -> Option<u64> {
        let found = self.slots.iter().rposition(|slot| kind.contains(slot))?;
        Some(found as u64)
    }

    /// Emits code that sets a register to an argument for the parameter `param`. In most cases the
    /// argument is valid.
    fn argument(&mut self, reg: u8, param: &str, helper: bool) {
        if !self.random.chance(80) {
            return self.anything(reg);
        }
        let section = |name: &str| self.image.sections.iter().find(|section| section.name == name);
        let field = |name: &str, n: usize| {
            let section = section(name)?;
            Some((section.addr + u64::from(section.fields.get(n)?.offset)) as i64)
        };
        let slot = |g: &mut Self, reg, kind: &[&str]| match g.slot_with(kind) {
            Some(slot) => g.load_slot(reg, slot),
            None => g.anything(reg),
        };
        match param {
            _ if param.contains("task_struct") => {
                slot(self, reg, &["task", "bpf_task_acquire", "bpf_task_from_pid"]);
            }
            _ if param.contains("struct cgroup") => slot(self, reg, &["scx_bpf_task_cgroup", "bpf_cgroup_from_id"]),
            _ if param.contains("__map") => self.map(reg),
            _ if param.contains('(') => self.function(reg),
            _ if param.contains("struct bpf_iter_") => self.stack(reg, ITERATOR),
            _ if param.contains("struct bpf_dynptr") => {
                let at = self.random.pick(&DYNPTRS);
                self.stack(reg, at);
            }
            _ if param.contains("irq_flag") => self.stack(reg, FLAGS),
            _ if param.contains("bpf_list_head") => self.constant(reg, field(".data.A", 1).unwrap_or(0)),
            _ if param.contains("bpf_rb_root") => self.constant(reg, field(".data.B", 1).unwrap_or(0)),
            _ if param.contains("cpumask") => slot(self, reg, &["bpf_cpumask_create", "scx_bpf_get_idle_cpumask"]),
            _ if param.contains("_node *") => {
                slot(
                    self,
                    reg,
                    &["bpf_obj_new_impl", "bpf_obj_new", "bpf_list_front", "bpf_rbtree_first"],
                );
                let node = self.random.pick(&[0, 0, 24, 8]);
                self.emit(insn::ALU64 | alu::ADD, reg, 0, 0, node);
            }
            _ if param.contains("local_type_id") => {
                let types: Vec<u32> = self.image.types.keys().copied().collect();
                let id = self.random.pick(&types);
                self.constant(reg, id.into());
            }
            _ if param.contains("__alloc") || param.contains("refcounted") => {
                slot(self, reg, &["bpf_obj_new_impl", "bpf_obj_new", "bpf_percpu_obj_new"]);
            }
            _ if param.contains("__sz") => {
                let size = self.random.pick(&[8, 16, 24, 64, -8, 512, 1 << 33]);
                self.constant(reg, size);
            }
            _ if param.contains('*') => self.memory(reg),
            // The locks of the list and of the tree are at the start of their sections.
            "" if helper => match (reg, self.random.below(8)) {
                (1, 0..=3) => self.map(reg),
                (1, 4) => self.constant(reg, field(".data.A", 0).unwrap_or(0)),
                (_, 5) => self.function(reg),
                (_, 0..=2) => self.memory(reg),
                (_, 3) => slot(self, reg, &["task"]),
                (_, 4) => self.stack(reg, DYNPTRS[0]),
                _ => {
                    let size = self.random.pick(&[0, 1, 8, 16, 64, -1]);
                    self.constant(reg, size);
                }
            },
            _ => {
                let number = number(self.random);
                self.constant(reg, number);
            }
        }
    }

    fn map(&mut self, reg: u8) {
        let handles: Vec<u64> = self.image.maps.iter().map(|map| map.handle).collect();
        let handle = self.random.pick(&handles);
        self.constant(reg, handle as i64);
    }

    /// Emits code that sets the register to a function of the program, or to an invalid function.
    fn function(&mut self, reg: u8) {
        let at = self.random.below(self.functions + 1);
        self.constant(reg, (FUNC_BASE + at) as i64);
    }

    /// Emits code that sets the register to an address in the program's own memory.
    fn memory(&mut self, reg: u8) {
        match self.random.below(6) {
            0 => {
                let section = self.random.below(self.image.sections.len() as u64) as usize;
                let offset = 8 * self.random.below(16);
                let addr = self.image.sections[section].addr + offset;
                self.constant(reg, addr as i64);
            }
            1 => self.load_slot(reg, 3),
            _ => {
                let at = MEMORY + 8 * self.random.below(5) as i64;
                self.stack(reg, at);
            }
        }
    }

    /// Emits code that sets the register to an arbitrary value: a number, an address in the
    /// kernel's memory, or a pointer into the middle of an object.
    fn anything(&mut self, reg: u8) {
        match self.random.below(9) {
            0 => self.constant(reg, 0),
            1 => {
                let number = number(self.random);
                self.constant(reg, number);
            }
            2 => {
                let at = -8 * self.random.below(66) as i64 - self.random.below(2) as i64;
                self.stack(reg, at);
            }
            3 => self.map(reg),
            4 => self.memory(reg),
            5 => self.emit(insn::ALU64 | alu::MOV | insn::X, reg, CONTEXT, 0, 0),
            6 => self.function(reg),
            drawn => {
                let slot = self.random.below(SLOTS);
                self.load_slot(reg, slot);
                let delta = self.random.pick(&[1, 4, 8, 16, 40, 64, 512, 4096, -8]);
                if drawn == 7 {
                    self.emit(insn::ALU64 | alu::ADD, reg, 0, 0, delta);
                }
            }
        }
    }

    /// Emits code that releases most of the references that the program certainly holds.
    fn release(&mut self) {
        for slot in 0..SLOTS {
            let held = self.slots[slot as usize];
            let Some((_, release)) = PAIRS.iter().find(|(acquire, _)| *acquire == held) else {
                continue;
            };
            if !self.random.chance(80) {
                continue;
            }
            self.load_slot(1, slot);
            self.emit(insn::ALU64 | alu::MOV, 2, 0, 0, 0);
            self.emit(insn::JMP | jmp::JEQ, 1, 0, 1, 0);
            self.call(release);
        }
    }
}
