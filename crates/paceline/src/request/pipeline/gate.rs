//! The gate's step: who has sent the request, and whether they may come in, before a file, a kept page or the
//! application is asked. It makes responses of what the gate says, and its lines in the log. It decides nothing.

use http::{header, request::Parts, HeaderValue, Response, Version};
use http_body_util::{BodyExt, Limited};

use super::Step;
use crate::{
    content::body::ResponseBody,
    exchange::{incoming::Arriving, Exchange, NeedsHttp1},
    observe::log::Name,
    request::{
        auth::{Gate, GateAnswer, Glance, PartAdmission, MAX_FORM},
        errors,
        front::Front,
        route::Site,
    },
};

/// What the gate could say of a request without waiting. None: the site has no gate.
pub fn glance(site: &Site, head: &mut Parts, exchange: &mut Exchange) -> Option<Glance> {
    site.gate.as_ref().map(|gate| gate.glance(head, exchange))
}

/// Whether what goes before the gate's answer, such as a kept page, may be looked for.
pub fn passes(glance: Option<&Glance>) -> bool {
    matches!(glance, None | Some(Glance::Passes))
}

/// Finds out who has sent the request, if nobody knows yet. Err: the answer in place of the page.
pub async fn judge(
    front: &Front,
    site: &Site,
    glance: Option<Glance>,
    head: &mut Parts,
    body: &mut Arriving,
    exchange: &mut Exchange,
) -> Step {
    let (Some(gate), Some(glance)) = (&site.gate, glance) else { return Ok(()) };
    let answer = match glance {
        Glance::Passes => return Ok(()),
        // On the heap, so that other requests have no room for it.
        Glance::Unknown(areas) => match Box::pin(gate.judge(&areas, head, exchange)).await {
            Ok(()) => {
                say_of_anonymous(front, site, gate, exchange);
                return Ok(());
            }
            Err(answer) => answer,
        },
        Glance::Reserved => {
            let form = if gate.reads_form(head) {
                Limited::new(body, MAX_FORM).collect().await.map(|form| form.to_bytes()).unwrap_or_default()
            } else {
                Default::default()
            };
            Box::pin(gate.reserved(head, exchange, &form)).await
        }
    };
    Err(response(front, site, gate, head, exchange, answer))
}

/// A part of a page: it may have what the page's visitor may have, and nothing else.
pub fn part(site: &Site, head: &Parts, exchange: &mut Exchange) -> Step {
    let Some(gate) = &site.gate else { return Ok(()) };
    match gate.admits_part(head.uri.path(), exchange.requester.user.as_ref()) {
        PartAdmission::AsUser => {
            exchange.response.protected = true;
            Ok(())
        }
        PartAdmission::Open => {
            exchange.requester.user = None;
            Ok(())
        }
        PartAdmission::Refused => {
            // Others have it in their page.
            exchange.response.protected = true;
            exchange.log.note = Some("sso: not-allowed: the page's visitor may not see this part of it".into());
            Err(errors::status(site, head, exchange, http::StatusCode::FORBIDDEN, "You may not see this page."))
        }
    }
}

/// Someone came in without a user, because what they had was refused.
fn say_of_anonymous(front: &Front, site: &Site, gate: &Gate, exchange: &Exchange) {
    if let (None, Some(note)) = (&exchange.requester.user, &exchange.log.note) {
        if gate.says("anonymous") {
            front.log.of(&site.config.name).event(Name::SignOn, format!("{}: {note}", site.config.name));
        }
    }
}

fn response(
    front: &Front,
    site: &Site,
    gate: &Gate,
    head: &Parts,
    exchange: &mut Exchange,
    answer: GateAnswer,
) -> Response<ResponseBody> {
    if let Some((kind, text)) = &answer.note {
        exchange.log.note = Some(format!("sso: {kind}"));
        if gate.says(kind) {
            let name = &site.config.name;
            front.log.of(name).event(Name::SignOn, format!("{name}: {kind}: {text}"));
        }
    }
    let mut response = match &answer.signed_out {
        _ if answer.status.is_redirection() => Response::new(ResponseBody::Empty),
        Some(sign_in) => errors::signed_out(head, sign_in),
        None => errors::status(site, head, exchange, answer.status, &answer.sentence),
    };
    *response.status_mut() = answer.status;
    let fields = response.headers_mut();
    for (name, value) in answer.fields {
        fields.append(name, value);
    }
    fields.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if answer.needs_http1 && head.version == Version::HTTP_2 {
        response.extensions_mut().insert(NeedsHttp1);
    }
    response
}
