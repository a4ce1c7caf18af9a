//! What has to be done for one time at which pages change, and when: prepare them, look again shortly before, put the new
//! pages in their place, compare a sample with what the application then says. It never does any of it.
//!
//! The time of day may be set in both directions at any moment. Forwards over the change, the pages change at once.
//! Back over it, the change is undone, and comes again.

use std::collections::BTreeMap;

use crate::Millis;

/// How long before the change prepared pages are rendered again and compared.
pub const RECHECKS: [Millis; 3] = [60_000, 10_000, 2_000];
/// How long after the change a sample is compared.
pub const COMPARE_AFTER: Millis = 2_000;
/// How long after the change the prepared pages are kept, for a clock that is set back.
pub const KEEP: Millis = 600_000;

/// What has to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Render the pages as they will be.
    Prepare,
    /// Render them again: somebody may have changed something.
    Recheck,
    /// Give the new pages from now on.
    Swap,
    /// The clock was set back: give the old ones.
    Undo,
    /// Ask the application for a sample of them.
    Compare,
    /// Nothing is left to do.
    Forget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// So many re-checks are behind it.
    Prepared(usize),
    Swapped,
    Compared,
}

/// A page of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageState {
    Waiting,
    Preparing,
    /// Rendered, and there at the time.
    Ready,
    /// The application renders it when it is asked for. Why, and where in its code if that is known.
    Dynamic {
        why: String,
        at: String,
    },
    Swapped,
    /// After the change the application says something else: what differs.
    Differs(String),
}

impl PageState {
    pub fn as_str(&self) -> &'static str {
        match self {
            PageState::Waiting => "waiting",
            PageState::Preparing => "preparing",
            PageState::Ready => "ready",
            PageState::Dynamic { .. } => "dynamic",
            PageState::Swapped => "swapped",
            PageState::Differs(_) => "differs",
        }
    }
}

/// One time at which pages of a site change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub at: Millis,
    /// How long before that the pages are prepared.
    pub prepare: Millis,
    /// By their URLs, with what tells variants apart.
    pub pages: BTreeMap<String, PageState>,
    stage: Stage,
}

impl Plan {
    pub fn new(at: Millis, prepare: Millis) -> Plan {
        Plan { at, prepare, pages: BTreeMap::new(), stage: Stage::Waiting }
    }

    /// What is to be done at `now`. None: nothing before `wake_at`.
    pub fn due(&mut self, now: Millis) -> Option<Step> {
        if now < self.at {
            let behind = self.rechecks_behind(now);
            return match &mut self.stage {
                Stage::Swapped | Stage::Compared => Some(Step::Undo),
                Stage::Waiting => (now >= self.at.saturating_sub(self.prepare)).then_some(Step::Prepare),
                Stage::Prepared(count) => {
                    *count = behind.min(*count);
                    (behind > *count).then_some(Step::Recheck)
                }
            };
        }
        match self.stage {
            Stage::Waiting | Stage::Prepared(_) => Some(Step::Swap),
            Stage::Swapped => (now >= self.at + COMPARE_AFTER).then_some(Step::Compare),
            Stage::Compared => (now >= self.at + KEEP).then_some(Step::Forget),
        }
    }

    /// A step was taken, or has begun where it takes a while.
    pub fn took(&mut self, step: Step, now: Millis) {
        self.stage = match step {
            Step::Prepare | Step::Recheck | Step::Undo => Stage::Prepared(self.rechecks_behind(now)),
            Step::Swap => Stage::Swapped,
            Step::Compare | Step::Forget => Stage::Compared,
        };
    }

    /// Something that the pages are made of has changed: they are prepared again as soon as it is time.
    pub fn prepare_again(&mut self) {
        if let Stage::Prepared(_) = self.stage {
            self.stage = Stage::Waiting;
        }
    }

    /// When there may be something to do next, if nothing is due now.
    pub fn wake_at(&self, now: Millis) -> Millis {
        match self.stage {
            Stage::Waiting => self.at.saturating_sub(self.prepare).max(now),
            Stage::Prepared(_) => {
                let rechecks = RECHECKS.iter().map(|before| self.at.saturating_sub(*before));
                rechecks.filter(|at| *at > now).min().unwrap_or(self.at).min(self.at)
            }
            Stage::Swapped => self.at + COMPARE_AFTER,
            Stage::Compared => self.at + KEEP,
        }
    }

    /// Since when the pages are to be rendered as they are at `now`: what was rendered before that is rendered again.
    pub fn due_since(&self, now: Millis) -> Millis {
        let rechecks = RECHECKS.iter().map(|before| self.at.saturating_sub(*before));
        rechecks.filter(|at| *at <= now).max().unwrap_or_else(|| self.at.saturating_sub(self.prepare))
    }

    pub fn is_swapped(&self) -> bool {
        matches!(self.stage, Stage::Swapped | Stage::Compared)
    }

    pub fn is_prepared(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    pub fn count(&self, state: &str) -> usize {
        self.pages.values().filter(|page| page.as_str() == state).count()
    }

    fn rechecks_behind(&self, now: Millis) -> usize {
        RECHECKS.iter().filter(|before| self.at.saturating_sub(**before) <= now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Millis = 1_795_780_800_000;

    /// What a plan does while the clock says this, one after the other.
    fn steps(plan: &mut Plan, clock: &[i64]) -> Vec<(i64, Step)> {
        let mut taken = Vec::new();
        for offset in clock {
            let now = T.saturating_add_signed(*offset);
            while let Some(step) = plan.due(now) {
                taken.push((*offset, step));
                plan.took(step, now);
                assert!(taken.len() < 50, "it never ends: {taken:?}");
                if step == Step::Forget {
                    return taken;
                }
            }
        }
        taken
    }

    #[test]
    fn the_usual_way() {
        let clock = [-700_000, -600_000, -60_001, -60_000, -10_000, -2_000, -1, 0, 1_000, 2_000, 599_999, 600_000];
        let wanted = [
            (-600_000, Step::Prepare),
            (-60_000, Step::Recheck),
            (-10_000, Step::Recheck),
            (-2_000, Step::Recheck),
            (0, Step::Swap),
            (2_000, Step::Compare),
            (600_000, Step::Forget),
        ];
        assert_eq!(steps(&mut Plan::new(T, 600_000), &clock), wanted);
    }

    #[test]
    fn who_begins_late_leaves_out_what_is_behind() {
        assert_eq!(
            steps(&mut Plan::new(T, 600_000), &[-5_000, -2_000, 3]),
            [(-5_000, Step::Prepare), (-2_000, Step::Recheck), (3, Step::Swap)]
        );
        assert_eq!(steps(&mut Plan::new(T, 1_000), &[-5_000, -1_000, 0]), [(-1_000, Step::Prepare), (0, Step::Swap)]);
        assert_eq!(steps(&mut Plan::new(T, 1_000), &[50_000]), [(50_000, Step::Swap), (50_000, Step::Compare)]);
    }

    #[test]
    fn the_clock_is_set_forwards_over_the_change() {
        assert_eq!(
            steps(&mut Plan::new(T, 600_000), &[-300_000, 3_600_000]),
            [(-300_000, Step::Prepare), (3_600_000, Step::Swap), (3_600_000, Step::Compare), (3_600_000, Step::Forget)]
        );
    }

    #[test]
    fn the_clock_is_set_back_over_the_change() {
        let taken = steps(&mut Plan::new(T, 600_000), &[-5_000, 0, -30_000, -10_000, -2_000, 0]);
        assert_eq!(
            taken,
            [
                (-5_000, Step::Prepare),
                (0, Step::Swap),
                (-30_000, Step::Undo),
                (-10_000, Step::Recheck),
                (-2_000, Step::Recheck),
                (0, Step::Swap)
            ]
        );
        let before_it = steps(&mut Plan::new(T, 600_000), &[-5_000, -1_000, -120_000, -60_000, 0]);
        assert_eq!(
            before_it,
            [(-5_000, Step::Prepare), (-1_000, Step::Recheck), (-60_000, Step::Recheck), (0, Step::Swap)]
        );
    }

    /// It sleeps neither through a step nor in vain.
    #[test]
    fn it_wakes_when_something_is_due() {
        let mut plan = Plan::new(T, 90_000);
        let mut now = T - 3_600_000;
        let mut woken = Vec::new();
        while woken.len() < 7 {
            match plan.due(now) {
                Some(step) => plan.took(step, now),
                None => {
                    let next = plan.wake_at(now);
                    assert!(next > now, "{plan:?} at {now}");
                    now = next;
                    woken.push(now as i64 - T as i64);
                    assert!(plan.due(now).is_some(), "in vain at {}", now as i64 - T as i64);
                }
            }
        }
        assert_eq!(woken, [-90_000, -60_000, -10_000, -2_000, 0, 2_000, 600_000]);
    }

    #[test]
    fn each_look_shortly_before_the_change_renders_again() {
        let plan = Plan::new(T, 600_000);
        let since = |now: i64| plan.due_since(T.saturating_add_signed(now)) as i64 - T as i64;
        let looks = [-700_000, -600_000, -60_001, -60_000, -9_999, -2_000, -1];
        assert_eq!(looks.map(since), [-600_000, -600_000, -600_000, -60_000, -10_000, -2_000, -2_000]);
        assert_eq!(Plan::new(T, 1_000).due_since(T - 500), T - 2_000);
    }

    #[test]
    fn pages_are_prepared_again_before_the_change_only() {
        let mut plan = Plan::new(T, 90_000);
        plan.took(Step::Prepare, T - 80_000);
        plan.prepare_again();
        assert_eq!(plan.due(T - 70_000), Some(Step::Prepare));
        plan.took(Step::Swap, T);
        plan.prepare_again();
        assert_eq!(plan.due(T), None);
    }
}
