// SPDX-License-Identifier: GPL-2.0-only
//! Collects descriptions of the helpers and kfuncs that a program can call, for the sanitizer.

use super::callee::{Callee, Names};
use super::rules::Rules;
use crate::engine::context::{Context, Target};
use crate::error::Error;
use std::rc::Rc;

/// Describes the functions in `cx.helpers` and `cx.kfuncs`, at the same indexes.
///
/// # Errors
/// If the program can call a function whose pointer arguments are not described.
pub(super) fn names(cx: &Context, rules: &Rules) -> Result<Names, Error> {
    let collect = |targets: &[Option<Target>]| {
        let callees = targets.iter().map(|target| match target {
            Some(target) => callee(target, rules).map(|callee| Some(Rc::new(callee))),
            None => Ok(None),
        });
        callees.collect::<Result<Vec<_>, Error>>()
    };
    Ok(Names {
        helpers: collect(&cx.helpers)?,
        kfuncs: collect(&cx.kfuncs)?,
    })
}

fn callee(target: &Target, rules: &Rules) -> Result<Callee, Error> {
    let signature = target.signature.resolve(target.name, rules)?;
    Ok(Callee {
        name: target.name,
        rules: target.rules,
        used_args: target.rules.uses_args.unwrap_or(target.args).into(),
        pointer: signature.pointer,
        nullable: signature.nullable || signature.pointer && target.rules.ret_null,
        void: signature.void,
        args: signature.args,
    })
}
