//! The picture of `paceline top`: a line about the server, the course of requests per second, the sites, and beside each
//! other the workers and the slowest routes. What does not fit is left out. It never asks the server.

use std::collections::VecDeque;

use ratatui::{
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table},
    Frame,
};
use units::{age, grouped, millis};

use super::{
    super::status::counted,
    figures::{Figures, SiteFigures},
    lines::rate,
};
use crate::server::control::client::Failed;

/// Looks that are kept for the course: more than any terminal is wide.
const HISTORY: usize = 500;
/// Columns from which on workers and routes stand beside each other.
const WIDE: u16 = 90;
/// Rows of the course of requests, with its heading.
const CHART: u16 = 4;

/// What is shown.
pub struct TopView {
    figures: Figures,
    /// Requests per second, the oldest first.
    course: VecDeque<u64>,
    /// Why there was no answer last time.
    trouble: Option<String>,
}

impl TopView {
    pub fn new(figures: Figures) -> TopView {
        let mut shown = TopView { figures: Figures::default(), course: VecDeque::new(), trouble: None };
        shown.take(figures);
        shown
    }

    pub fn take(&mut self, figures: Figures) {
        if self.course.len() == HISTORY {
            self.course.pop_front();
        }
        self.course.push_back(figures.per_second().round() as u64);
        self.figures = figures;
        self.trouble = None;
    }

    /// The server has not answered. What was known stays.
    pub fn lose(&mut self, failed: &Failed) {
        self.trouble = Some(match failed {
            Failed::NoServer(_) => "no server answers".into(),
            Failed::Forbidden => "no permission".into(),
            Failed::Broken(why) | Failed::Refused(why) => why.clone(),
        });
    }
}

pub fn draw(frame: &mut Frame<'_>, shown: &TopView) {
    let figures = &shown.figures;
    let area = frame.area();
    // The sites may have a third of the picture, and a row at least.
    let sites = (figures.sites.len() as u16 + 1).min((area.height / 3).max(2));
    let [head, chart, table, rest] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(CHART),
        Constraint::Length(sites),
        Constraint::Fill(1),
    ])
    .areas(area);
    head_line(frame, head, shown);
    course(frame, chart, shown);
    frame.render_widget(of_sites(&figures.sites), table);
    let workers: usize = figures.sites.iter().map(|site| site.workers.len()).sum();
    let [left, right] = if area.width >= WIDE {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(rest)
    } else {
        Layout::vertical([Constraint::Length(workers as u16 + 2), Constraint::Fill(1)]).areas(rest)
    };
    frame.render_widget(of_workers(&figures.sites), left);
    frame.render_widget(of_routes(&figures.sites), right);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn soft() -> Style {
    Style::new().fg(Color::DarkGray)
}

fn head_line(frame: &mut Frame<'_>, area: Rect, shown: &TopView) {
    let figures = &shown.figures;
    let mut spans = vec![
        Span::styled(format!("paceline {}", figures.version), bold()),
        Span::raw(format!("  pid {}  up {}  {}", figures.pid, age(figures.up), figures.readiness)),
        Span::raw(format!(
            "  {}  {} in progress",
            counted(figures.connections, "connection"),
            grouped(figures.in_hand)
        )),
    ];
    if let Some(trouble) = &shown.trouble {
        spans = vec![spans.swap_remove(0), Span::styled(format!("  {trouble}"), Style::new().fg(Color::Red))];
    }
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(8)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(spans)), left);
    frame.render_widget(Paragraph::new("q: quit").style(soft()).alignment(Alignment::Right), right);
}

/// The newest at the right.
fn course(frame: &mut Frame<'_>, area: Rect, shown: &TopView) {
    let width = usize::from(area.width);
    let most = shown.course.iter().skip(shown.course.len().saturating_sub(width)).max().copied().unwrap_or(0);
    let mut bars = vec![0; width.saturating_sub(shown.course.len())];
    bars.extend(shown.course.iter().skip(shown.course.len().saturating_sub(width)));
    let title = Line::from(vec![
        Span::styled(format!("{} requests/s", rate(shown.figures.per_second())), bold()),
        Span::styled(format!("  at most {} in this picture", grouped(most)), soft()),
    ]);
    let block = Block::new().title(title);
    frame.render_widget(Sparkline::default().block(block).data(&bars).style(Style::new().fg(Color::Green)), area);
}

fn heading<const N: usize>(cells: [&'static str; N]) -> Row<'static> {
    Row::new(cells.map(|cell| Cell::from(right(cell.into(), cell != cells[0])))).style(soft())
}

/// Figures stand to the right, names to the left.
fn right(text: String, is_figure: bool) -> Line<'static> {
    Line::from(text).alignment(if is_figure { Alignment::Right } else { Alignment::Left })
}

fn of_sites(sites: &[SiteFigures]) -> Table<'static> {
    let rows = sites.iter().map(|site| {
        let times = site.times.map_or_else(|| std::array::from_fn(|_| String::new()), |times| times.map(millis));
        let [median, p95, p99] = times;
        let share = |share: Option<f64>| share.map(|share| format!("{share:.1} %")).unwrap_or_default();
        let threads = if site.threads > 0 { format!("{}/{}", site.busy, site.threads) } else { String::new() };
        let waiting = if site.threads > 0 { grouped(site.waiting) } else { String::new() };
        let cells = [rate(site.per_second), median, p95, p99, waiting, threads, share(site.hits())];
        let mut row =
            vec![Cell::from(site.name.clone()), Cell::from(right(site.state.clone(), true).style(state(site)))];
        row.extend(cells.map(|cell| Cell::from(right(cell, true))));
        row[6] = row[6].clone().style(if site.waiting > 0 { Style::new().fg(Color::Yellow) } else { Style::new() });
        let failed = site.failed().filter(|share| *share > 0.0);
        row.push(Cell::from(right(share(failed), true)).style(Style::new().fg(Color::Red)));
        Row::new(row)
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(6),
    ];
    let names = ["site", "", "req/s", "median", "p95", "p99", "waiting", "busy", "cache", "5xx"];
    Table::new(rows, widths).header(heading(names))
}

fn state(site: &SiteFigures) -> Style {
    Style::new().fg(match site.state.as_str() {
        "failed" | "stopped" => Color::Red,
        "starting" | "closed" => Color::Yellow,
        _ => Color::Green,
    })
}

fn titled(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(soft()).title(Span::styled(title, bold()))
}

fn of_workers(sites: &[SiteFigures]) -> Table<'static> {
    let several = sites.iter().filter(|site| !site.workers.is_empty()).count() > 1;
    let rows = sites.iter().flat_map(|site| site.workers.iter().map(move |worker| (site, worker)));
    let rows = rows.map(|(site, worker)| {
        let per_worker = site.threads / site.workers.len().max(1) as u64;
        let of_site = if several { format!("{} ", site.name) } else { String::new() };
        let memory = worker.memory.map(units::bytes).unwrap_or_default();
        let busy = format!("{}/{per_worker}", worker.busy);
        let cells = [worker.pid.to_string(), worker.generation.to_string(), busy, grouped(worker.answered), memory];
        let name = Cell::from(format!("{of_site}worker {}", worker.index));
        Row::new(std::iter::once(name).chain(cells.map(|cell| Cell::from(right(cell, true)))))
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(4),
        Constraint::Length(5),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    Table::new(rows, widths).header(heading(["", "pid", "gen", "busy", "requests", "memory"])).block(titled("Workers"))
}

fn of_routes(sites: &[SiteFigures]) -> Table<'static> {
    let mut routes: Vec<&(String, f64)> = sites.iter().flat_map(|site| &site.routes).collect();
    routes.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rows = routes
        .into_iter()
        .map(|(route, time)| Row::new([Cell::from(route.clone()), Cell::from(right(millis(*time), true))]));
    let widths = [Constraint::Fill(1), Constraint::Length(10)];
    Table::new(rows, widths).header(heading(["", "time"])).block(titled("Slowest routes"))
}

#[cfg(test)]
mod tests {
    use ratatui::{backend::TestBackend, Terminal};

    use super::{super::figures::sample, *};

    fn drawn(shown: &TopView, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[test]
    fn a_wide_picture() {
        let picture = drawn(&TopView::new(sample()), 100, 20);
        let text = picture.join("\n");
        assert!(
            picture[0].starts_with("paceline 0.1.0  pid 4711  up 1 d 2 h  ready  12 connections  3 in progress"),
            "{text}"
        );
        assert!(picture[0].ends_with("q: quit"), "{text}");
        assert!(picture[1].starts_with("100 requests/s  at most 100 in this picture"), "{text}");
        let shop = picture.iter().find(|row| row.starts_with("shop")).unwrap();
        let words: Vec<&str> = shop.split_whitespace().collect();
        let wanted =
            ["shop", "ready", "100", "1.50", "ms", "20.2", "ms", "1.23", "s", "4", "2/10", "75.0", "%", "1.0", "%"];
        assert_eq!(words, wanted, "{text}");
        let workers = picture.iter().find(|row| row.contains("Workers") && row.contains("Slowest routes"));
        assert!(workers.is_some(), "{text}");
        assert!(
            picture.iter().any(|row| row.starts_with("worker 1") && row.contains("64.0 MB") && row.contains("1,234")),
            "{text}"
        );
        assert!(picture.iter().any(|row| row.contains("GET /reports/*") && row.ends_with("812 ms")), "{text}");
    }

    #[test]
    fn a_narrow_picture_has_the_same_below_each_other() {
        let picture = drawn(&TopView::new(sample()), 80, 24);
        let at = |word: &str| {
            picture.iter().position(|row| row.contains(word)).unwrap_or_else(|| panic!("{word}: {picture:#?}"))
        };
        assert!(at("shop") < at("Workers") && at("Workers") < at("Slowest routes"), "{picture:#?}");
        assert!(at("worker 2") < at("Slowest routes") && at("Slowest routes") < at("GET /reports/*"), "{picture:#?}");
    }

    #[test]
    fn no_terminal_is_too_small() {
        let mut shown = TopView::new(sample());
        for (width, height) in [(1, 1), (10, 2), (20, 5), (200, 3), (3, 60)] {
            drawn(&shown, width, height);
        }
        for _ in 0..2 * HISTORY {
            shown.take(sample());
        }
        assert_eq!(shown.course.len(), HISTORY);
        drawn(&shown, 300, 10);
    }

    #[test]
    fn a_server_that_does_not_answer_leaves_what_was_known() {
        let mut shown = TopView::new(sample());
        shown.lose(&Failed::NoServer(std::io::ErrorKind::NotFound.into()));
        let picture = drawn(&shown, 100, 20);
        assert!(picture[0].starts_with("paceline 0.1.0  no server answers"), "{picture:#?}");
        assert!(picture.iter().any(|row| row.starts_with("shop")), "{picture:#?}");
        shown.take(sample());
        assert!(drawn(&shown, 100, 20)[0].contains("ready"));
    }
}
