//! What a figure is compared with.

use std::fmt;

/// Which side of a bar is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Good {
    Above,
    Below,
}

/// A floor that the product has to reach and an aim beyond it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    good: Good,
    floor: f64,
    aim: Option<f64>,
    unit: &'static str,
}

/// How far a figure got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Neither,
    Floor,
    Aim,
}

impl Bar {
    pub(super) const fn at_least(floor: f64, aim: f64, unit: &'static str) -> Self {
        Self {
            good: Good::Above,
            floor,
            aim: Some(aim),
            unit,
        }
    }

    pub(super) const fn at_most(floor: f64, aim: f64, unit: &'static str) -> Self {
        Self {
            good: Good::Below,
            floor,
            aim: Some(aim),
            unit,
        }
    }

    /// A bound without an aim beyond it.
    pub(super) const fn bound(floor: f64, unit: &'static str) -> Self {
        Self {
            good: Good::Below,
            floor,
            aim: None,
            unit,
        }
    }

    /// Compares a figure, which is in the unit of the bar; one that is not a number reaches nothing.
    pub(super) fn reached(&self, value: f64) -> Reached {
        let is_good = |limit: f64| match self.good {
            Good::Above => value >= limit,
            Good::Below => value <= limit,
        };
        match self.aim {
            Some(aim) if is_good(aim) => Reached::Aim,
            Some(_) | None if is_good(self.floor) => Reached::Floor,
            Some(_) | None => Reached::Neither,
        }
    }

    pub(super) fn floor(&self) -> String {
        self.show(self.floor)
    }

    pub(super) fn aim(&self) -> String {
        self.aim.map(|aim| self.show(aim)).unwrap_or_default()
    }

    fn show(&self, limit: f64) -> String {
        let sign = match self.good {
            Good::Above => ">=",
            Good::Below => "<=",
        };
        format!("{sign} {limit} {}", self.unit).trim_end().to_owned()
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Neither => "no",
            Self::Floor => "floor",
            Self::Aim => "aim",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Reached};

    #[test]
    fn a_figure_is_compared_on_the_right_side() {
        let check =
            |bar: Bar, value: f64, expected: Reached| assert_eq!(bar.reached(value), expected, "{value}");
        let more = Bar::at_least(0.6, 0.8, "");
        check(more, 0.5, Reached::Neither);
        check(more, 0.6, Reached::Floor);
        check(more, 0.9, Reached::Aim);
        let less = Bar::at_most(3.0, 2.0, "us");
        check(less, 3.1, Reached::Neither);
        check(less, 2.5, Reached::Floor);
        check(less, -1.0, Reached::Aim);
        check(less, f64::NAN, Reached::Neither);
        check(Bar::bound(5.0, "s"), 1.0, Reached::Floor);
        check(Bar::bound(5.0, "s"), 6.0, Reached::Neither);
    }

    #[test]
    fn a_bar_says_its_sign_and_unit() {
        assert_eq!(Bar::at_least(2.5, 3.5, "x").floor(), ">= 2.5 x");
        assert_eq!(Bar::at_most(0.05, 0.02, "").aim(), "<= 0.02");
        assert_eq!(Bar::bound(5.0, "s").aim(), "");
    }
}
