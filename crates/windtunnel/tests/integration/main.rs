// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command `windtunnel` and of all policies of the repository.

mod broken;
mod calibrate;
mod cli;
mod compare;
mod determinism;
mod diff;
mod documents;
mod experiment;
mod installed;
mod invariants;
mod keeps;
mod negative;
mod page;
mod policy_dss;
mod policy_linux26;
mod policy_o1;
mod policy_p9;
mod policy_pls;
mod policy_pmqs;
mod policy_properties;
mod policy_records;
mod policy_rr;
mod policy_steal;
mod policy_torus;
mod policy_windows;
mod replay;
mod report;
mod rtapp;
mod schedules;
mod suite;
mod support;
mod sweep;
mod terminal;
mod top;
mod workloads;
