//! What somebody gets who has not proved who they are: a challenge, the way to the identity provider, the application
//! without a user, or a refusal. Pure.

use super::header::Manner;
use crate::config::parts::sign_on::Otherwise;

/// What is known of the request and of its area.
#[derive(Debug, Clone, Copy)]
pub struct Unproved {
    pub otherwise: Otherwise,
    pub manner: Manner,
    /// It changes nothing: GET or HEAD.
    pub is_read: bool,
    /// A ticket may be asked for here, of this client.
    pub negotiate: bool,
    /// Name and password may be asked for on this connection.
    pub basic: bool,
    /// The browser has shown before that it has no ticket.
    pub declined: bool,
    pub failed: Failed,
    /// It has `Authorization` of a scheme that the application judges.
    pub has_own: bool,
}

/// What was tried and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    Nothing,
    Ticket,
    Password,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// The application, without a user.
    Anonymous,
    /// The browser goes to the identity provider.
    Login,
    /// 401.
    Challenge {
        negotiate: bool,
        basic: bool,
        /// A browser that has no ticket goes on from the page of the 401 to what it gets otherwise.
        goes_on: bool,
    },
    /// 403.
    Refuse,
}

pub fn offer(unproved: &Unproved) -> Offer {
    let Unproved { otherwise, manner, is_read, basic, failed, .. } = *unproved;
    let is_page = manner == Manner::Navigation;
    let may_negotiate = unproved.negotiate && !unproved.declined;
    if failed == Failed::Password && (basic || may_negotiate) {
        return Offer::Challenge { negotiate: may_negotiate, basic, goes_on: false };
    }
    // A browser whose ticket was refused would ask for a password if it were challenged again.
    let negotiate = may_negotiate && failed == Failed::Nothing;
    // A program is told that its ticket was refused.
    if failed == Failed::Ticket && manner == Manner::Program {
        return Offer::Challenge {
            negotiate: unproved.negotiate,
            basic: basic && otherwise == Otherwise::Basic,
            goes_on: false,
        };
    }
    match otherwise {
        Otherwise::App if negotiate && is_read && manner != Manner::Part && !unproved.has_own => {
            Offer::Challenge { negotiate, basic: false, goes_on: is_page }
        }
        Otherwise::App => Offer::Anonymous,
        Otherwise::OpenId if negotiate => Offer::Challenge { negotiate, basic: false, goes_on: is_page },
        Otherwise::OpenId if is_page => Offer::Login,
        Otherwise::OpenId => Offer::Challenge { negotiate: false, basic: false, goes_on: false },
        Otherwise::Basic if basic || negotiate => Offer::Challenge { negotiate, basic, goes_on: false },
        Otherwise::Refuse if negotiate => Offer::Challenge { negotiate, basic: false, goes_on: false },
        Otherwise::Basic | Otherwise::Refuse => Offer::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Manner::{Navigation, Part, Program};
    use Otherwise::{App, Basic, OpenId, Refuse};

    const PLAIN: Unproved = Unproved {
        otherwise: App,
        manner: Navigation,
        is_read: true,
        negotiate: true,
        basic: false,
        declined: false,
        failed: Failed::Nothing,
        has_own: false,
    };

    fn challenge(negotiate: bool, basic: bool, goes_on: bool) -> Offer {
        Offer::Challenge { negotiate, basic, goes_on }
    }

    #[test]
    fn a_ticket_is_asked_for_first_where_it_may_be() {
        for (otherwise, manner, told) in [
            (App, Navigation, challenge(true, false, true)),
            (App, Program, challenge(true, false, false)),
            (App, Part, Offer::Anonymous),
            (OpenId, Navigation, challenge(true, false, true)),
            (OpenId, Part, challenge(true, false, false)),
            (OpenId, Program, challenge(true, false, false)),
            (Basic, Navigation, challenge(true, true, false)),
            (Refuse, Navigation, challenge(true, false, false)),
        ] {
            let basic = otherwise == Basic;
            assert_eq!(offer(&Unproved { otherwise, manner, basic, ..PLAIN }), told, "{otherwise:?} {manner:?}");
        }
    }

    #[test]
    fn outside_and_without_a_ticket_it_is_never_asked_for() {
        for (otherwise, manner, told) in [
            (App, Navigation, Offer::Anonymous),
            (App, Program, Offer::Anonymous),
            (OpenId, Navigation, Offer::Login),
            (OpenId, Part, challenge(false, false, false)),
            (OpenId, Program, challenge(false, false, false)),
            (Basic, Navigation, challenge(false, true, false)),
            (Refuse, Navigation, Offer::Refuse),
            (Refuse, Program, Offer::Refuse),
        ] {
            let unproved = Unproved { otherwise, manner, basic: otherwise == Basic, ..PLAIN };
            for (negotiate, declined) in [(false, false), (true, true)] {
                assert_eq!(offer(&Unproved { negotiate, declined, ..unproved }), told, "{otherwise:?} {manner:?}");
            }
        }
    }

    #[test]
    fn a_browser_whose_ticket_is_refused_is_not_asked_for_a_password_in_its_place() {
        let failed = Failed::Ticket;
        for (otherwise, told) in [
            (App, Offer::Anonymous),
            (OpenId, Offer::Login),
            (Basic, challenge(false, true, false)),
            (Refuse, Offer::Refuse),
        ] {
            let unproved = Unproved { otherwise, failed, basic: otherwise == Basic, ..PLAIN };
            assert_eq!(offer(&unproved), told, "{otherwise:?}");
            let told = challenge(true, otherwise == Basic, false);
            assert_eq!(offer(&Unproved { manner: Program, ..unproved }), told, "{otherwise:?}");
        }
        let wrong = Unproved { failed: Failed::Password, basic: true, ..PLAIN };
        assert_eq!(offer(&wrong), challenge(true, true, false));
    }

    #[test]
    fn what_an_application_signs_in_itself_is_let_through_to_it() {
        assert_eq!(offer(&Unproved { has_own: true, ..PLAIN }), Offer::Anonymous);
        assert_eq!(offer(&Unproved { is_read: false, manner: Program, ..PLAIN }), Offer::Anonymous);
        let refuse = Unproved { has_own: true, otherwise: Refuse, ..PLAIN };
        assert_eq!(offer(&refuse), challenge(true, false, false));
        // Passwords are not asked for on a connection that others can read.
        assert_eq!(offer(&Unproved { otherwise: Basic, negotiate: false, ..PLAIN }), Offer::Refuse);
    }
}
