// SPDX-License-Identifier: GPL-2.0-only
//! Integration tests. They explore the policies of the museum.

mod museum;
