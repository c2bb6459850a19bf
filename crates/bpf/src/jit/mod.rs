// SPDX-License-Identifier: GPL-2.0-only
//! The JIT compiler: each BPF function becomes a machine function, through Cranelift.
//!
//! A machine function takes the [`Context`] and r1 to r5 and returns r0, as helpers do. BPF registers are SSA variables; the
//! count of instructions left is one more, written back at calls and at the end. What is emitted for one instruction is in
//! `function`, for loads and stores in `memory`, for calls in `call`, in checked mode besides in `checked`; the order of blocks in `flow`.

mod call;
mod checked;
mod flow;
mod function;
mod memory;

use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};

use crate::func::Entry;
use crate::vm::Context;

/// The machine code of a program. Dropping it frees the code.
pub(crate) struct Compiled {
    /// By function.
    pub entries: Vec<Entry>,
    /// Where the code lies.
    pub range: std::ops::Range<u64>,
    /// From which address on which BPF instruction, ascending. None where the compiler made an instruction of its own.
    places: Vec<(u64, Option<u32>)>,
    module: Option<JITModule>,
}

impl Compiled {
    /// The BPF instruction of a machine instruction, if it is that of one.
    pub fn pc(&self, ip: u64) -> Option<usize> {
        let after = self.places.partition_point(|&(start, _)| start <= ip);
        let (_, pc) = self.places[..after].last()?;
        pc.map(|pc| pc as usize)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: a VM drops its code only when no call is under way.
            unsafe { module.free_memory() };
        }
    }
}

/// Compiles all functions.
pub(crate) fn compile(cx: &Context) -> Result<Compiled, String> {
    build(cx).map_err(|error| format!("JIT compiler: {error}"))
}

fn build(cx: &Context) -> Result<Compiled, Box<dyn std::error::Error>> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "false")?;
    flags.set("unwind_info", "false")?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
    let isa = cranelift_native::builder()?.finish(settings::Flags::new(flags))?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, cranelift_module::default_libcall_names()));

    let mut ids: Vec<FuncId> = Vec::new();
    for index in 0..cx.code.functions.len() {
        ids.push(module.declare_function(&format!("f{index}"), Linkage::Local, &own_signature(cx))?);
    }
    let mut context = module.make_context();
    let mut builder_context = FunctionBuilderContext::new();
    let mut offsets: Vec<Vec<(u32, Option<u32>)>> = Vec::new();
    let mut sizes = Vec::new();
    for (index, &id) in ids.iter().enumerate() {
        context.func.signature = own_signature(cx);
        function::translate(cx, index, &ids, &mut module, &mut context.func, &mut builder_context);
        module.define_function(id, &mut context)?;
        let code = context.compiled_code().ok_or("no code")?;
        sizes.push(u64::from(code.code_info().total_size));
        let places = code.buffer.get_srclocs_sorted().iter();
        offsets.push(
            places
                .map(|p| (p.start, (!p.loc.is_default()).then_some(p.loc.bits())))
                .collect(),
        );
        module.clear_context(&mut context);
    }
    module.finalize_definitions()?;

    let starts: Vec<u64> = ids.iter().map(|&id| module.get_finalized_function(id) as u64).collect();
    let ends = starts.iter().zip(&sizes).map(|(start, size)| start + size);
    let range = starts.iter().copied().min().unwrap_or(0)..ends.max().unwrap_or(0);
    let mut places: Vec<(u64, Option<u32>)> = starts
        .iter()
        .zip(offsets)
        .flat_map(|(&start, offsets)| {
            offsets
                .into_iter()
                .map(move |(offset, pc)| (start + u64::from(offset), pc))
        })
        .collect();
    places.sort_unstable();
    // SAFETY: the code was compiled with this signature, and the trampolines, which alone call entries, keep the registers.
    let entries = starts
        .iter()
        .map(|&start| unsafe { std::mem::transmute::<u64, Entry>(start) })
        .collect();
    Ok(Compiled {
        entries,
        range,
        places,
        module: Some(module),
    })
}

/// Of compiled functions: context and r1 to r5; returns r0. No register survives a call, so that none has to be saved on the
/// way in: the trampoline saves them all, as a fault has to find them. In checked mode they are called from Rust.
fn own_signature(cx: &Context) -> Signature {
    let mut signature = signature(5);
    if cx.guard.is_none() {
        signature.call_conv = CallConv::Winch;
    }
    signature
}

/// Context and the first `args` of r1 to r5; returns r0.
fn signature(args: usize) -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend((0..=args).map(|_| AbiParam::new(types::I64)));
    signature.returns.push(AbiParam::new(types::I64));
    signature
}
