// SPDX-License-Identifier: GPL-2.0-only
//! Emits machine code for calls. Calls of Rust functions (helpers, kfuncs and functions that raise
//! faults) use symbols, whose addresses are known only when the code is loaded. Calls of the
//! program's own functions use relative addresses.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, ExtFuncData, ExternalName, GlobalValueData, InstBuilder, InstructionData, Opcode, TrapCode, UserExternalName,
    Value, types,
};

use super::function::Translator;
use super::inputs::Array;
use super::runtime::Runtime;
use super::symbol::Symbol;
use super::{own_signature, signature};
use crate::engine::context::ANY;
use crate::engine::context::Context;
use crate::image::{CALL_FUNCTION, CALL_HELPER, CALL_KFUNC, Insn};

/// Helper number of bpf_map_lookup_elem.
const MAP_LOOKUP: i64 = 1;

impl Translator<'_, '_> {
    /// Translates CALL.
    pub fn call(&mut self, pc: usize, i: &Insn) {
        self.write_back();
        let result = if i.src == CALL_FUNCTION {
            let next = self.builder.create_block();
            self.within_budget(pc, next);
            self.enter_block(next);
            let callee = self.own_function(i.imm as u32);
            self.enter_function(pc);
            let args = self.args(5);
            let call = self.builder.ins().call(callee, &args);
            let result = self.builder.inst_results(call)[0];
            self.leave_function();
            result
        } else {
            let at = self.builder.ins().iconst(types::I32, pc as i64);
            self.store_field(at, offset_of!(Context, pc));
            match self.cx.target(i) {
                None => self.call_symbol(Runtime::Missing, &[]),
                Some(target) => {
                    if target.contexts != ANY {
                        self.permit(pc, target.contexts);
                    }
                    if target.cost != 0 {
                        let cost = self.load_field(types::I64, offset_of!(Context, cost));
                        let cost = self.builder.ins().iadd_imm_s(cost, i64::from(target.cost));
                        self.store_field(cost, offset_of!(Context, cost));
                    }
                    if self.provenances.is_none()
                        && let Some(value) = self.array_lookup(i)
                    {
                        self.set(0, value);
                        return self.clobber();
                    }
                    self.check_call();
                    let args = self.args(usize::from(target.args));
                    let symbol = match i.src {
                        CALL_KFUNC => Symbol::Kfunc(i.imm as u32),
                        _ => Symbol::Helper(i.imm as u32),
                    };
                    let result = self.call_symbol(symbol, &args[1..]);
                    self.set_result_prov(pc, result);
                    result
                }
            }
        };
        self.resume_counting();
        self.set(0, result);
        self.clobber();
        let left = self.load_field(types::I64, offset_of!(Context, left));
        self.builder.def_var(self.left, left);
    }

    /// Emits the look-up in an array map in place of a call of `bpf_map_lookup_elem`, as the kernel
    /// does (array_map_gen_lookup, percpu_array_map_gen_lookup). Emits nothing and returns `None`
    /// if the map is not a constant in the code, is no array, or if the key is not known to lie in
    /// the region.
    fn array_lookup(&mut self, i: &Insn) -> Option<Value> {
        if i.src != CALL_HELPER || i.imm != MAP_LOOKUP {
            return None;
        }
        let (map, key) = (self.get(1), self.get(2));
        let addr = self.constant(map)? as u64;
        let Array {
            base,
            stride,
            max,
            per_cpu,
        } = *self.cx.arrays.get(&addr)?;
        if !self.is_inside(key) {
            return None;
        }
        let key = self.host(key);
        let key = self.builder.ins().load(types::I32, self.heap, key, 0);
        let exists = self
            .builder
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, key, i64::from(max));
        let index = self.builder.ins().uextend(types::I64, key);
        let offset = self.builder.ins().imul_imm_u(index, stride as i64);
        let base = self.builder.ins().iconst(types::I64, base as i64);
        let mut value = self.builder.ins().iadd(base, offset);
        if per_cpu {
            let cpu = self.load_field(types::I32, offset_of!(Context, cpu));
            let cpu = self.builder.ins().uextend(types::I64, cpu);
            let block = self.builder.ins().imul_imm_u(cpu, (stride * u64::from(max)) as i64);
            value = self.builder.ins().iadd(value, block);
        }
        let none = self.builder.ins().iconst(types::I64, 0);
        Some(self.builder.ins().select(exists, value, none))
    }

    /// Returns the number if the value is a constant, otherwise `None`.
    pub fn constant(&self, value: Value) -> Option<i64> {
        let dfg = &self.builder.func.dfg;
        match dfg.insts[dfg.value_def(dfg.resolve_aliases(value)).inst()?] {
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                imm,
            } => Some(imm.bits()),
            _ => None,
        }
    }

    /// Sets r1 to r5 to zero after a call.
    fn clobber(&mut self) {
        let zero = self.builder.ins().iconst(types::I64, 0);
        for register in 1..=5 {
            self.set(register, zero);
        }
        self.clobber_provs();
    }

    /// Returns the arguments for a call of a compiled function or shim (the glue around a Rust
    /// function): the context and the first `nr` registers from r1 on.
    pub fn args(&mut self, nr: usize) -> Vec<Value> {
        let mut args = vec![self.context];
        args.extend((1..=nr as u8).map(|register| self.get(register)));
        args
    }

    /// Emits a test that raises a fault unless the current context is one of `contexts`. `contexts`
    /// has one bit for each context in which the function may be called.
    fn permit(&mut self, pc: usize, contexts: u32) {
        let current = self.load_field(types::I32, offset_of!(Context, contexts));
        let common = self.builder.ins().band_imm_s(current, i64::from(contexts));
        let (refuse, next) = (self.cold_block(), self.builder.create_block());
        self.builder.ins().brif(common, next, &[], refuse, &[]);
        self.enter_block(refuse);
        self.fault(pc, Runtime::NotAllowed, &[]);
        self.enter_block(next);
    }

    /// Declares a function of the program, for a call by its relative address.
    fn own_function(&mut self, index: u32) -> ir::FuncRef {
        let signature = self.builder.import_signature(own_signature(self.cx));
        self.function((super::OWN_FUNCTION, index), signature, true)
    }

    fn function(&mut self, (namespace, index): (u32, u32), signature: ir::SigRef, colocated: bool) -> ir::FuncRef {
        let name = UserExternalName { namespace, index };
        let name = self.builder.func.declare_imported_user_function(name);
        self.builder.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated,
            patchable: false,
        })
    }

    /// Emits a call of a Rust function with the context and these arguments.
    pub fn call_symbol(&mut self, callee: impl Into<Symbol>, args: &[Value]) -> Value {
        let signature = self.builder.import_signature(signature(args.len()));
        let callee = self.function(callee.into().parts(), signature, false);
        let args: Vec<Value> = [self.context].into_iter().chain(args.iter().copied()).collect();
        let call = self.builder.ins().call(callee, &args);
        self.builder.inst_results(call)[0]
    }

    /// Emits the value of a symbol plus a constant.
    pub fn symbol_value(&mut self, symbol: Symbol, offset: i64) -> Value {
        let (namespace, index) = symbol.parts();
        let name = UserExternalName { namespace, index };
        let name = self.builder.func.declare_imported_user_function(name);
        let value = self.builder.create_global_value(GlobalValueData::Symbol {
            name: ExternalName::user(name),
            offset: offset.into(),
            colocated: false,
            tls: false,
        });
        self.builder.ins().symbol_value(types::I64, value)
    }

    /// Emits a call that raises a fault and does not return. Ends the block.
    pub fn fault(&mut self, pc: usize, why: Runtime, args: &[Value]) {
        let at = self.builder.ins().iconst(types::I32, pc as i64);
        self.store_field(at, offset_of!(Context, pc));
        self.call_symbol(why, args);
        self.builder.ins().trap(TrapCode::unwrap_user(1));
    }

    /// Emits a test of the budget: continues in `next`, or raises a fault if the budget is used up.
    /// The variable for the remaining budget must be up to date.
    pub fn within_budget(&mut self, pc: usize, next: ir::Block) {
        let left = self.builder.use_var(self.left);
        let over = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, left, 0);
        let stop = self.cold_block();
        self.builder.ins().brif(over, stop, &[], next, &[]);
        self.enter_block(stop);
        self.write_back();
        self.fault(pc, Runtime::OverBudget, &[]);
    }

    /// Stores the remaining budget in the context.
    pub fn write_back(&mut self) {
        let left = self.counted();
        self.store_field(left, offset_of!(Context, left));
    }

    pub fn load_field(&mut self, ty: cranelift_codegen::ir::Type, offset: usize) -> Value {
        self.builder.ins().load(ty, self.fields, self.context, offset as i32)
    }

    pub fn store_field(&mut self, value: Value, offset: usize) {
        self.builder
            .ins()
            .store(self.fields, value, self.context, offset as i32);
    }
}
