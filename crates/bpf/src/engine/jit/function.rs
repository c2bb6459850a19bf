// SPDX-License-Identifier: GPL-2.0-only
//! Translates one BPF function to Cranelift's intermediate representation.
//!
//! A trap is an instruction that the linker inserted for a reference to something that the
//! simulator does not have. It raises a fault when it is executed.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AliasRegionData, InstBuilder, MemFlagsData, SourceLoc, Value, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use super::flow::Flow;
use super::inputs::Inputs;
use super::memory::Known;
use super::runtime::Runtime;
use super::sanitizer::Provenances;
use crate::engine::context::Context;
use crate::engine::counting;
use crate::image::{CALL, Insn, LD_IMM64};
use crate::insn::FRAME;
use crate::insn::{self, jmp};
use crate::memory::SHIFT;

/// State of the translation of one function.
pub(super) struct Translator<'a, 'b> {
    pub cx: &'a Inputs<'a>,
    pub builder: FunctionBuilder<'b>,
    pub flow: &'a Flow,
    /// Block that is being translated.
    pub block: usize,
    /// Facts about values, from which it follows that a test would be superfluous.
    pub known: Known,
    /// Address of the [`Context`], the first argument of the function.
    pub context: Value,
    /// Flags of accesses to program memory. Such accesses may trap, so the compiler must neither
    /// drop nor move them.
    pub heap: MemFlagsData,
    /// Flags of accesses to fields of the context.
    pub fields: MemFlagsData,
    /// Flags of accesses to the words of the cache model, which never trap.
    pub lines: MemFlagsData,
    /// Variables for r0 to r9.
    registers: Vec<Variable>,
    /// Value of r10, if the function uses it.
    fp: Option<Value>,
    /// Variable for the remaining budget.
    pub left: Variable,
    /// Number of translated instructions of the current block that no emitted code has subtracted
    /// from `left` yet.
    uncounted: i64,
    /// Variable for the number of times that `may_goto` may still let a loop continue.
    loops: Option<Variable>,
    blocks: Vec<ir::Block>,
    /// The counters of the function, or `None` if instructions are not counted.
    counters: Option<Counters>,
    /// Whether the function calls any function. If it does, it must store the frame pointer of the
    /// called function in the context. Always true with the sanitizer.
    calls: bool,
    /// Provenance of each register (the object to which it points), or `None` without the
    /// sanitizer.
    pub provenances: Option<Provenances>,
}

/// The counters of executed instructions, see [`counting`].
struct Counters {
    /// Flags of accesses to the counters, which never trap.
    memory: MemFlagsData,
    /// Index of the function's first instruction.
    start: usize,
    /// Address of the counter of the first instruction.
    counts: Value,
    /// Call paths of this function and of its caller.
    path: Value,
    outer: Value,
}

/// Translates function `index` and writes the result to `func`.
pub(super) fn translate(
    cx: &Inputs<'_>,
    index: usize,
    flow: &Flow,
    isa: &dyn TargetIsa,
    func: &mut ir::Function,
    builder_context: &mut FunctionBuilderContext,
) {
    let function = &cx.code.functions[index];
    let insns = &cx.code.insns[function.start..function.end];
    let mut builder = FunctionBuilder::new(func, builder_context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let params = builder.block_params(entry).to_vec();
    let registers: Vec<Variable> = (0..10).map(|_| builder.declare_var(types::I64)).collect();
    let zero = builder.ins().iconst(types::I64, 0);
    for (n, &register) in registers.iter().enumerate() {
        builder.def_var(register, if (1..=5).contains(&n) { params[n] } else { zero });
    }
    let left = builder.declare_var(types::I64);
    let loops = insns.iter().any(|i| i.op == insn::MAY_GOTO).then(|| {
        let loops = builder.declare_var(types::I32);
        let max = builder.ins().iconst(types::I32, i64::from(insn::MAX_LOOPS));
        builder.def_var(loops, max);
        loops
    });
    let blocks = flow.blocks.iter().map(|_| builder.create_block()).collect();
    let regions = &mut builder.func.dfg.alias_regions;
    let [heap, fields, lines, counts] =
        [(0, "program memory"), (1, "context"), (2, "cache lines"), (3, "counts")].map(|(user_id, description)| {
            regions.insert(AliasRegionData {
                user_id,
                description: description.into(),
            })
        });
    let heap = MemFlagsData::new().with_alias_region(Some(heap));
    let fields = MemFlagsData::trusted().with_alias_region(Some(fields));
    let lines = MemFlagsData::trusted().with_alias_region(Some(lines));
    let calls = cx.checks.is_some() || insns.iter().any(|i| i.op == CALL);
    let mut t = Translator {
        cx,
        builder,
        flow,
        block: 0,
        known: Known::default(),
        context: params[0],
        heap,
        fields,
        lines,
        registers,
        fp: None,
        left,
        uncounted: 0,
        loops,
        blocks,
        counters: None,
        calls,
        provenances: None,
    };
    t.init_provenances();
    if function.is_callback && t.provenances.is_none() {
        t.mark_arguments(params[1]);
    }
    let value = t.load_field(types::I64, offset_of!(Context, left));
    t.builder.def_var(left, value);
    t.frame(index, insns.iter().any(|i| i.dst == insn::FP || i.src == insn::FP));
    if cx.counts {
        t.begin_counting(
            index,
            function.start,
            MemFlagsData::trusted().with_alias_region(Some(counts)),
        );
    }
    let first = t.blocks[0];
    t.builder.ins().jump(first, &[]);

    // A block is sealed as soon as all its predecessors are translated. Cranelift can then keep the
    // SSA value of a register across blocks, and need not make a new one for each block. A check of
    // an address in one block thus serves all blocks that the block dominates.
    let mut missing: Vec<usize> = flow.blocks.iter().map(|block| block.preds.len()).collect();
    missing[0] += 1;
    let mut arrived = |t: &mut Translator<'_, '_>, n: usize| {
        missing[n] -= 1;
        if missing[n] == 0 {
            t.builder.seal_block(t.blocks[n]);
        }
    };
    arrived(&mut t, 0);
    for &n in &flow.order {
        t.block = n;
        t.builder.switch_to_block(t.blocks[n]);
        t.block();
        for &to in &flow.blocks[n].succs {
            arrived(&mut t, to);
        }
    }
    t.builder.seal_all_blocks();
    t.builder.finalize(isa.frontend_config());
}

impl Translator<'_, '_> {
    pub fn get(&mut self, register: u8) -> Value {
        match self.registers.get(usize::from(register)) {
            Some(&variable) => self.builder.use_var(variable),
            None => self.fp.expect("a function that uses r10 has set up its frame"),
        }
    }

    pub fn set(&mut self, register: u8, value: Value) {
        self.builder.def_var(self.registers[usize::from(register)], value);
    }

    pub fn cold_block(&mut self) -> ir::Block {
        let block = self.builder.create_block();
        self.builder.set_cold_block(block);
        block
    }

    /// Continues in `block`. All jumps to this block must have been emitted.
    pub fn enter_block(&mut self, block: ir::Block) {
        self.builder.switch_to_block(block);
        self.builder.seal_block(block);
    }

    /// Returns the budget that remains after the instructions translated so far.
    pub fn counted(&mut self) -> Value {
        let left = self.builder.use_var(self.left);
        if self.uncounted == 0 {
            return left;
        }
        let left = self.builder.ins().iadd_imm_s(left, -self.uncounted);
        self.uncounted = 0;
        self.builder.def_var(self.left, left);
        left
    }

    /// Emits code that loads this function's frame pointer from the context, and stores there the
    /// frame pointer of the next function that is called.
    fn frame(&mut self, index: usize, uses_fp: bool) {
        if !uses_fp && !self.calls {
            return;
        }
        let fp = self.load_field(types::I64, offset_of!(Context, fp));
        self.fp = Some(fp);
        self.set_frame_prov(fp);
        self.mark_frame(fp);
        if !self.calls {
            return;
        }
        let next_fp = self.builder.ins().iadd_imm_s(fp, -(FRAME as i64));
        if self.cx.nests[index] {
            let limit = self.load_field(types::I64, offset_of!(Context, stack_limit));
            let over = self.builder.ins().icmp(IntCC::UnsignedLessThan, next_fp, limit);
            let (overflow, next) = (self.cold_block(), self.builder.create_block());
            self.builder.ins().brif(over, overflow, &[], next, &[]);
            self.enter_block(overflow);
            self.fault(self.cx.code.functions[index].start, Runtime::StackOverflow, &[]);
            self.enter_block(next);
        }
        self.store_field(next_fp, offset_of!(Context, fp));
    }

    /// Emits the call that finds the counters of the function on its call path.
    fn begin_counting(&mut self, index: usize, start: usize, memory: MemFlagsData) {
        let path_offset = offset_of!(Context, count_path);
        let outer = self.load_field(types::I32, path_offset);
        let function = self.builder.ins().iconst(types::I64, index as i64);
        let counts = self.call_symbol(Runtime::CountEnter, &[function]);
        let path = self.load_field(types::I32, path_offset);
        self.counters = Some(Counters {
            memory,
            start,
            counts,
            path,
            outer,
        });
    }

    /// Emits the counting of a segment that ends with this instruction.
    fn count(&mut self, pc: usize) {
        let Some(&Counters {
            memory, start, counts, ..
        }) = self.counters.as_ref()
        else {
            return;
        };
        let offset = ((pc - start) * size_of::<u64>()) as i32;
        let count = self.builder.ins().load(types::I64, memory, counts, offset);
        let count = self.builder.ins().iadd_imm_s(count, 1);
        self.builder.ins().store(memory, count, counts, offset);
    }

    /// Emits the return to this function's call path after a call.
    pub fn resume_counting(&mut self) {
        if let Some(&Counters { path, .. }) = self.counters.as_ref() {
            self.store_field(path, offset_of!(Context, count_path));
        }
    }

    /// Translates the current block.
    fn block(&mut self) {
        let (start, end) = (self.flow.blocks[self.block].start, self.flow.blocks[self.block].end);
        for pc in start..end {
            let i = self.cx.code.insns[pc];
            self.builder.set_srcloc(SourceLoc::new(pc as u32));
            self.uncounted += 1;
            if counting::ends_segment(&i) || pc + 1 == end {
                self.count(pc);
            }
            self.register_checks_before(pc, &i);
            let known = match insn::class(i.op) {
                insn::ALU64 => self.alu(&i, types::I64),
                insn::ALU => self.alu(&i, types::I32),
                insn::LD if i.op == LD_IMM64 => {
                    let value = self.builder.ins().iconst(types::I64, i.imm);
                    if i.imm as u64 >> SHIFT == self.cx.base >> SHIFT {
                        self.mark_constant(value, i.imm as u64);
                    }
                    self.set(i.dst, value);
                    self.set_constant_prov(pc, &i);
                    true
                }
                insn::LDX => self.load(pc, &i),
                insn::ST | insn::STX => self.store(pc, &i),
                _ if i.op == CALL => {
                    self.call(pc, &i);
                    true
                }
                _ if i.op == insn::EXIT => {
                    self.exit();
                    return;
                }
                _ if insn::is_jump(i.op) => {
                    self.jump(pc, &i);
                    return;
                }
                _ => false,
            };
            if !known {
                if !counting::ends_segment(&i) && pc + 1 != end {
                    self.count(pc);
                }
                self.write_back();
                self.fault(pc, Runtime::Trap, &[]);
                // The instructions after the trap cannot be executed, but the flow graph contains
                // them. They are therefore translated, into a block that is never entered.
                let dead = self.builder.create_block();
                self.enter_block(dead);
            }
        }
        self.counted();
        match self.flow.blocks.get(self.block + 1) {
            Some(_) => {
                let next = self.blocks[self.block + 1];
                self.builder.ins().jump(next, &[]);
            }
            // The function ends in a trap.
            None => {
                self.builder.ins().trap(ir::TrapCode::unwrap_user(1));
            }
        }
    }

    fn exit(&mut self) {
        self.write_back();
        self.return_prov();
        if let Some(&Counters { outer, .. }) = self.counters.as_ref() {
            self.store_field(outer, offset_of!(Context, count_path));
        }
        if let (true, Some(fp)) = (self.calls, self.fp) {
            self.store_field(fp, offset_of!(Context, fp));
        }
        let r0 = self.get(0);
        self.builder.ins().return_(&[r0]);
    }

    fn jump(&mut self, pc: usize, i: &Insn) {
        self.counted();
        let target = (pc as i64 + 1 + i64::from(i.off)) as usize;
        let target = self
            .flow
            .blocks
            .binary_search_by_key(&target, |block| block.start)
            .expect("jump targets start a block");
        let target = self.blocks[target];
        if i.off >= 0 {
            return self.branch(i, target);
        }
        // A backward jump tests the budget only if it is taken.
        let back = self.builder.create_block();
        self.branch(i, back);
        self.enter_block(back);
        self.within_budget(pc, target);
    }

    fn branch(&mut self, i: &Insn, target: ir::Block) {
        if matches!(i.op, insn::GOTO | insn::GOTOL) {
            self.builder.ins().jump(target, &[]);
            return;
        }
        let next = self.blocks[self.block + 1];
        if i.op == insn::MAY_GOTO {
            let variable = self
                .loops
                .expect("a function that uses may_goto has declared its counter");
            let loops = self.builder.use_var(variable);
            let fewer = self.builder.ins().iadd_imm_s(loops, -1);
            // A counter that has reached 0 stays 0, so that later executions of may_goto jump, too.
            let over = self.builder.ins().icmp_imm_s(IntCC::Equal, loops, 0);
            let fewer = self.builder.ins().select(over, loops, fewer);
            self.builder.def_var(variable, fewer);
            self.builder.ins().brif(over, target, &[], next, &[]);
            return;
        }
        let ty = if insn::class(i.op) == insn::JMP32 {
            types::I32
        } else {
            types::I64
        };
        let a = self.get(i.dst);
        let a = self.narrow(a, ty);
        let b = (i.op & insn::X != 0).then(|| {
            let b = self.get(i.src);
            self.narrow(b, ty)
        });
        let imm = if ty == types::I32 {
            i64::from(i.imm as i32)
        } else {
            i.imm
        };
        let condition = match i.op & 0xf0 {
            jmp::JSET => match b {
                Some(b) => self.builder.ins().band(a, b),
                None => self.builder.ins().band_imm_s(a, imm),
            },
            op => {
                let code = match op {
                    jmp::JEQ => IntCC::Equal,
                    jmp::JGT => IntCC::UnsignedGreaterThan,
                    jmp::JGE => IntCC::UnsignedGreaterThanOrEqual,
                    jmp::JNE => IntCC::NotEqual,
                    jmp::JSGT => IntCC::SignedGreaterThan,
                    jmp::JSGE => IntCC::SignedGreaterThanOrEqual,
                    jmp::JLT => IntCC::UnsignedLessThan,
                    jmp::JLE => IntCC::UnsignedLessThanOrEqual,
                    jmp::JSLT => IntCC::SignedLessThan,
                    _ => IntCC::SignedLessThanOrEqual,
                };
                match b {
                    Some(b) => self.builder.ins().icmp(code, a, b),
                    None => self.builder.ins().icmp_imm_s(code, a, imm),
                }
            }
        };
        self.builder.ins().brif(condition, target, &[], next, &[]);
    }
}
