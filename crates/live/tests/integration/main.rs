// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel-live` on this machine, without loading a policy.

mod alone;
mod compare;
mod every;
mod refusals;
mod run;
mod study;
