// SPDX-License-Identifier: GPL-2.0-only
//! Formats a sensitivity analysis (how results depend on constants) as text and as JSON.

use super::{Column, Conclusion, ConclusionKind, Sensitivity, Variant};
use report::layout::{Grid, Surface};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::escape;

/// Maximum number of conclusions that the text lists.
const MOST_LISTED: usize = 40;

/// Returns a table for each column, followed by the conclusions that turn over.
pub fn text(s: &Sensitivity, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let mut text = escape::text(&format!("{}: {}\n", s.name, s.title)).into_owned();
    let seeds = if s.seeds == 1 { "seed" } else { "seeds" };
    let _ = writeln!(
        text,
        "Each constant is halved and doubled while all others keep their values; {} {seeds}.",
        s.seeds
    );
    for (index, column) in s.columns.iter().enumerate() {
        let _ = writeln!(text, "\n{}", escape::text(&column.name));
        text.push_str(&table(s, index, column).render(surface));
    }
    let mut rest = String::new();
    if !s.without_effect.is_empty() {
        let _ = writeln!(rest, "\nNo value depends on {}.", s.without_effect.join(", "));
    }
    let turned = |by_chance: bool| {
        let turned = s
            .conclusions
            .iter()
            .filter(|c| !c.turned_by.is_empty() && c.by_chance == by_chance);
        turned.collect::<Vec<_>>()
    };
    let all = s.conclusions.len();
    let held = s
        .conclusions
        .iter()
        .filter(|c| c.turned_by.is_empty() && !c.by_chance)
        .count();
    let chance = s.conclusions.iter().filter(|c| c.by_chance).count();
    let _ = writeln!(
        rest,
        "\n{all} conclusions (effects of at least 3 points or 3 %): {held} hold in all variants, {} depend on a \
         constant, {chance} turn over with other seeds and may be chance.",
        turned(false).len()
    );
    for conclusion in turned(false).iter().take(MOST_LISTED) {
        let _ = writeln!(rest, "  {}", line(s, conclusion));
    }
    if let Some(more) = turned(false).len().checked_sub(MOST_LISTED + 1) {
        let _ = writeln!(rest, "  and {} more, which --json lists", more + 1);
    }
    let _ = writeln!(rest, "{} runs in {:.1} s", s.runs, s.wall.as_secs_f64());
    text + &escape::text(&rest)
}

fn table(s: &Sensitivity, index: usize, column: &Column) -> Grid {
    let mut grid = Grid::new();
    let unit = if column.relative { "points" } else { "%" };
    grid.left("changed", 0);
    grid.right(&format!("largest change ({unit})"), 1);
    if column.relative {
        grid.right(&format!("signs turned of {}", column.signs), 2);
    }
    grid.right(&format!("orders turned of {}", column.orders), 3);
    let published = s
        .variants
        .iter()
        .any(|variant| variant.effects[index].spearman.is_some());
    if published {
        grid.right("Spearman", 4);
    }
    let row = |variant: &Variant| {
        let effect = &variant.effects[index];
        let mut cells = vec![
            variant.change.name(),
            effect
                .largest_change
                .map(|change| format!("{change:.1}"))
                .unwrap_or_default(),
        ];
        if column.relative {
            cells.push(effect.signs.to_string());
        }
        cells.push(effect.orders.to_string());
        if published {
            cells.push(effect.spearman.map(|rho| format!("{rho:.2}")).unwrap_or_default());
        }
        cells
    };
    s.variants.iter().for_each(|variant| grid.row(row(variant)));
    grid
}

fn line(s: &Sensitivity, conclusion: &Conclusion) -> String {
    let column = &s.columns[conclusion.column];
    let unit = if column.relative { "points" } else { "%" };
    let by = conclusion
        .turned_by
        .iter()
        .map(|(name, value)| format!("{name} ({value:+.1})"));
    let by = by.collect::<Vec<_>>().join(", ");
    let columns = if s.columns.len() > 1 {
        format!("{}: ", column.name)
    } else {
        String::new()
    };
    let (text, difference) = (&conclusion.text, conclusion.difference);
    format!("{columns}{text}: {difference:+.1} {unit}; turned over by {by}")
}

pub fn json(s: &Sensitivity) -> Value {
    let column = |column: &Column| {
        json!({
            "column": column.name,
            "unit": if column.relative { "points" } else { "percent" },
            "signs": column.signs,
            "orders": column.orders,
        })
    };
    let variant = |variant: &Variant| {
        let effects = s.columns.iter().zip(&variant.effects).map(|(column, effect)| {
            let effect = json!({
                "largest_change": effect.largest_change,
                "signs_turned": effect.signs,
                "orders_turned": effect.orders,
                "spearman": effect.spearman,
            });
            (column.name.clone(), effect)
        });
        json!({
            "changed": variant.change.name(),
            "effects": effects.collect::<serde_json::Map<_, _>>(),
        })
    };
    let conclusion = |conclusion: &Conclusion| {
        let turned = conclusion
            .turned_by
            .iter()
            .map(|(name, value)| json!({ "changed": name, "difference": value }));
        json!({
            "kind": match conclusion.kind {
                ConclusionKind::Sign => "sign",
                ConclusionKind::Order => "order",
            },
            "column": s.columns[conclusion.column].name,
            "conclusion": conclusion.text,
            "difference": conclusion.difference,
            "turned_by": turned.collect::<Vec<_>>(),
            "turned_by_other_seeds": conclusion.by_chance,
        })
    };
    json!({
        "experiment": s.name,
        "title": s.title,
        "seeds": s.seeds,
        "columns": s.columns.iter().map(column).collect::<Vec<_>>(),
        "variants": s.variants.iter().map(variant).collect::<Vec<_>>(),
        "without_effect": s.without_effect,
        "conclusions": s.conclusions.iter().map(conclusion).collect::<Vec<_>>(),
        "runs": s.runs,
        "wall_s": s.wall.as_secs_f64(),
    })
}
