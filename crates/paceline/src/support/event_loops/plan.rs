//! How many event loops take connections, and which of their connections go to another one. Plain arithmetic: it reads no clock.

/// Share of a processor that each loop may want before another one opens ...
const BUSY: f64 = 0.8;
/// ... in so many looks in a row.
const BUSY_LOOKS: u32 = 3;
/// Share of a processor for each of those left, below which one closes ...
const ROOM: f64 = 0.5;
/// ... in so many looks in a row.
const ROOM_LOOKS: u32 = 40;
/// Loops whose shares differ by less are left as they are.
const ALIKE: f64 = 0.2;

/// Decides from one look to the next.
pub struct Plan {
    loops: usize,
    open: usize,
    /// Looks in a row in which one more was wanted, and in which one was too many.
    busy: u32,
    room: u32,
}

impl Plan {
    /// For so many loops, of which one is open.
    pub fn new(loops: usize) -> Plan {
        Plan { loops, open: 1, busy: 0, room: 0 }
    }

    /// How many are to be open. `shares`: of a processor, of each loop since the last look.
    pub fn look(&mut self, shares: &[f64]) -> usize {
        let sum: f64 = shares.iter().sum();
        let is_busy = self.open < self.loops && sum > BUSY * self.open as f64;
        let has_room = self.open > 1 && sum < ROOM * (self.open - 1) as f64;
        self.busy = if is_busy { self.busy + 1 } else { 0 };
        self.room = if has_room { self.room + 1 } else { 0 };
        if self.busy >= BUSY_LOOKS {
            (self.open, self.busy) = (self.open + 1, 0);
        }
        if self.room >= ROOM_LOOKS {
            (self.open, self.room) = (self.open - 1, 0);
        }
        self.open
    }
}

/// Connections that are to go to another loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    pub connections: usize,
    pub to: usize,
}

/// What of its connections loop `number` gives away, of which it has so many. None: it keeps them.
pub fn departure(number: usize, connections: usize, open: usize, shares: &[f64]) -> Option<Departure> {
    let least = (0..open.min(shares.len())).min_by(|one, other| shares[*one].total_cmp(&shares[*other]))?;
    let own = *shares.get(number)?;
    let (gap, each) = (own - shares[least], own / connections as f64);
    let leaving = if number >= open {
        connections
    } else if gap > ALIKE && each <= gap / 2.0 {
        // Half of what would make them equal: the next look sees what came of it. One that is all the work stays.
        ((gap / 4.0 / each) as usize).max(1)
    } else {
        0
    };
    (leaving > 0 && least != number).then_some(Departure { connections: leaving, to: least })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is open after so many looks at the same shares.
    fn after(plan: &mut Plan, looks: u32, shares: &[f64]) -> usize {
        (0..looks).map(|_| plan.look(shares)).last().unwrap()
    }

    #[test]
    fn one_loop_is_open_until_it_has_no_time_left() {
        let mut plan = Plan::new(4);
        assert_eq!(after(&mut plan, 1000, &[0.7, 0.0, 0.0, 0.0]), 1);
        assert_eq!(after(&mut plan, BUSY_LOOKS - 1, &[0.95, 0.0, 0.0, 0.0]), 1, "a moment is none");
        assert_eq!(after(&mut plan, 1, &[0.95, 0.0, 0.0, 0.0]), 2);
        assert_eq!(after(&mut plan, 100, &[0.6, 0.6, 0.0, 0.0]), 2);
        assert_eq!(after(&mut plan, 1000, &[1.0, 1.0, 1.0, 1.0]), 4, "never more than there are");
    }

    #[test]
    fn it_closes_when_the_others_have_room_for_a_while() {
        let mut plan = Plan::new(2);
        after(&mut plan, BUSY_LOOKS, &[1.0, 0.0]);
        assert_eq!(after(&mut plan, ROOM_LOOKS - 1, &[0.2, 0.2]), 2);
        assert_eq!(after(&mut plan, 1, &[0.2, 0.2]), 1);
        assert_eq!(after(&mut plan, 1000, &[0.0, 0.0]), 1, "never the last");
    }

    #[test]
    fn what_is_taken_by_one_loop_is_not_taken_to_and_fro() {
        let mut plan = Plan::new(2);
        // All at one loop first, which has no time for all of it.
        let mut connections = [64, 0];
        for _ in 0..100 {
            let shares = connections.map(|of_loop| f64::from(of_loop) / 64.0);
            let open = plan.look(&shares);
            if let Some(leaving) = departure(0, connections[0] as usize, open, &shares) {
                assert_eq!(leaving.to, 1);
                connections[0] -= leaving.connections as u32;
                connections[1] += leaving.connections as u32;
            }
            assert_eq!(departure(1, connections[1] as usize, open, &shares), None);
        }
        let gap = f64::from(connections[0] - connections[1]) / 64.0;
        assert!((0.0..=ALIKE).contains(&gap), "{connections:?}");
    }

    #[test]
    fn a_loop_that_closes_gives_all_away() {
        assert_eq!(departure(1, 7, 1, &[0.3, 0.2]), Some(Departure { connections: 7, to: 0 }));
        assert_eq!(departure(1, 0, 1, &[0.3, 0.2]), None);
        assert_eq!(departure(0, 7, 1, &[0.3, 0.2]), None);
        assert_eq!(departure(0, 7, 1, &[]), None);
    }

    #[test]
    fn a_connection_that_is_all_the_work_stays() {
        assert_eq!(departure(0, 1, 2, &[1.0, 0.0]), None);
        assert_eq!(departure(0, 2, 2, &[1.0, 0.0]), Some(Departure { connections: 1, to: 1 }));
        assert_eq!(departure(0, 0, 2, &[1.0, 0.0]), None);
    }
}
