// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel-live` that run on the host. They do not load a policy.

mod alone;
mod compare;
mod every;
mod refusals;
mod run;
mod study;
