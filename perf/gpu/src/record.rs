//! The table: its rows as they are measured, one file of JSON, and one page.

use crate::lab::Lab;
use crate::measure::{interleaved, Contestant, Spread, ROUNDS};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a row came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    Hit,
    Miss,
    /// A figure without a goal, or whose goal needs what is not there.
    Figure,
    /// Measured over the stand-in: it works, and that is all.
    NoTime,
    NotAvailable(String),
    /// A wrong result, or a failure.
    Void(String),
}

impl Verdict {
    fn text(&self) -> String {
        match self {
            Verdict::Hit => "hit".to_owned(),
            Verdict::Miss => "miss".to_owned(),
            Verdict::Figure => "no goal".to_owned(),
            Verdict::NoTime => "stand-in, no time".to_owned(),
            Verdict::NotAvailable(why) => format!("not available: {why}"),
            Verdict::Void(why) => format!("void: {why}"),
        }
    }
}

/// Medians that a goal is worked out from.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub ours: f64,
    pub bare: Option<f64>,
    pub rival: Option<f64>,
}

/// Whether the figure is to be at most, or at least, what is worked out from the others.
pub enum Limit {
    AtMost(fn(&Figures) -> Option<f64>),
    AtLeast(fn(&Figures) -> Option<f64>),
    None,
}

/// What is asked, in words, and what the answer should be.
pub struct Question {
    pub text: String,
    pub unit: &'static str,
    /// What the figure in the second column is.
    pub beside: &'static str,
    pub goal: &'static str,
    pub limit: Limit,
    /// The rival's program, and of how many operations.
    pub rival: Option<(String, usize)>,
    /// How long all rounds may take.
    pub time: Duration,
}

impl Question {
    /// One without a goal, a rival, or something beside it.
    pub fn new(text: impl Into<String>, unit: &'static str) -> Question {
        let time = Duration::from_secs(10);
        Question { text: text.into(), unit, beside: "", goal: "", limit: Limit::None, rival: None, time }
    }

    pub fn beside(self, beside: &'static str) -> Question {
        Question { beside, ..self }
    }

    pub fn goal(self, goal: &'static str, limit: Limit) -> Question {
        Question { goal, limit, ..self }
    }

    pub fn rival(self, program: impl Into<String>, operations: usize) -> Question {
        Question { rival: Some((program.into(), operations)), ..self }
    }

    pub fn time(self, seconds: u64) -> Question {
        Question { time: Duration::from_secs(seconds), ..self }
    }
}

/// A row: the question and its answer.
pub struct Row {
    pub question: Question,
    pub ours: Option<Spread>,
    pub bare: Option<Spread>,
    pub rival: Option<Spread>,
    /// Why the rival has no figure, if it was asked.
    pub said: String,
    pub limit: Option<f64>,
    pub verdict: Verdict,
}

impl Row {
    /// A row without figures.
    pub fn empty(question: Question, verdict: Verdict) -> Row {
        Row { question, ours: None, bare: None, rival: None, said: String::new(), limit: None, verdict }
    }

    /// A row of figures that were measured elsewhere.
    pub fn judged(lab: &Lab, question: Question, ours: Spread, bare: Option<Spread>) -> Row {
        let mut row = Row { ours: Some(ours), bare, ..Row::empty(question, Verdict::Figure) };
        judge(&mut row, lab.has_no_time());
        row
    }
}

/// The rows so far, and where they are written.
pub struct Table {
    pub rows: Vec<Row>,
    /// What is known of the run: facts that are no figures.
    pub facts: Vec<(String, String)>,
    folder: PathBuf,
}

impl Table {
    /// An empty table. A folder that is not there is made.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn new(folder: &Path) -> Result<Table, String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let table = Table { rows: Vec::new(), facts: Vec::new(), folder: folder.to_owned() };
        table.write().map(|()| table)
    }

    /// Notes a fact.
    ///
    /// # Errors
    /// If the files cannot be written; likewise below.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) -> Result<(), String> {
        let value = value.into();
        println!("{name}: {value}");
        self.facts.push((name.to_owned(), value));
        self.write()
    }

    /// Measures a row: ours, what is beside it, and the rival, in turn.
    pub fn measure(
        &mut self,
        lab: &Lab,
        question: Question,
        ours: Contestant<'_>,
        bare: Option<Contestant<'_>>,
    ) -> Result<(), String> {
        let rounds = if lab.quick { 2 } else { ROUNDS };
        let has_bare = bare.is_some();
        let mut contestants: Vec<Contestant<'_>> = [Some(ours), bare].into_iter().flatten().collect();
        // A rival that fails is left out: our figures are worth having without it.
        let mut said = String::new();
        let ask = lab.rival.as_ref().zip(question.rival.clone());
        let ask = ask.filter(|(rival, (program, operations))| {
            said = rival.borrow_mut().ask(program, *operations).err().unwrap_or_default();
            said.is_empty()
        });
        let has_rival = ask.is_some();
        if let Some((rival, (program, operations))) = ask {
            contestants.push(Box::new(move || rival.borrow_mut().ask(&program, operations)));
        }
        let measured = interleaved(rounds, question.time, &mut contestants);
        drop(contestants);
        let mut row = Row { said, ..Row::empty(question, Verdict::Figure) };
        match measured {
            Err(why) => row.verdict = Verdict::Void(why),
            Ok(spreads) => {
                let mut spreads = spreads.into_iter();
                row.ours = spreads.next();
                row.bare = spreads.next().filter(|_| has_bare);
                row.rival = if has_bare { spreads.next() } else { row.bare.take() }.filter(|_| has_rival);
                judge(&mut row, lab.has_no_time());
            }
        }
        self.add(row)
    }

    /// A row that cannot be measured here.
    pub fn unavailable(&mut self, question: Question, why: impl Into<String>) -> Result<(), String> {
        self.add(Row::empty(question, Verdict::NotAvailable(why.into())))
    }

    /// Adds a row. What was measured is kept whatever comes after it.
    pub fn add(&mut self, row: Row) -> Result<(), String> {
        println!("{}", line(&row));
        self.rows.push(row);
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        let json = serde_json::to_string_pretty(&self.json()).map_err(|error| error.to_string())?;
        let write = |name: &str, text: &str| {
            let path = self.folder.join(name);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write("gpu.json", &json)?;
        write("gpu.md", &self.page())
    }

    fn json(&self) -> Value {
        let spread = |spread: &Option<Spread>| {
            spread.map(|s| json!({"median": s.median, "low": s.low, "high": s.high, "rounds": s.rounds}))
        };
        let row = |row: &Row| {
            json!({
                "question": row.question.text, "unit": row.question.unit, "beside": row.question.beside,
                "ours": spread(&row.ours), "bare": spread(&row.bare), "rival": spread(&row.rival), "rival_said": row.said,
                "goal": row.question.goal, "limit": row.limit, "verdict": row.verdict.text(),
            })
        };
        let facts: serde_json::Map<_, _> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({"facts": facts, "rows": self.rows.iter().map(row).collect::<Vec<_>>()})
    }

    fn page(&self) -> String {
        let mut page = "# On a GPU\n\n".to_owned();
        self.facts.iter().for_each(|(name, value)| page += &format!("- {name}: {value}\n"));
        page += "\nMedians; in brackets the extremes and the number of rounds, which are interleaved.\n\n";
        page +=
            "| question | unit | engine | beside it | rival | goal | limit | |\n|---|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            let (question, beside) = (&row.question, text(&row.bare));
            let beside = if row.bare.is_some() { format!("{}: {beside}", question.beside) } else { beside };
            let limit = row.limit.map_or(String::new(), number);
            page += &format!(
                "| {} | {} | {} | {beside} | {} | {} | {limit} | {} |\n",
                question.text,
                question.unit,
                text(&row.ours),
                if row.rival.is_some() { text(&row.rival) } else { row.said.clone() },
                question.goal,
                row.verdict.text()
            );
        }
        page
    }
}

/// Works out the limit, and whether it is kept.
fn judge(row: &mut Row, has_no_time: bool) {
    let Some(ours) = row.ours else { return };
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let figures = Figures { ours: ours.median, bare: median(row.bare), rival: median(row.rival) };
    let (limit, is_kept): (_, fn(f64, f64) -> bool) = match row.question.limit {
        Limit::AtMost(limit) => (limit(&figures), |ours, limit| ours <= limit),
        Limit::AtLeast(limit) => (limit(&figures), |ours, limit| ours >= limit),
        Limit::None => (None, |_, _| true),
    };
    row.limit = limit;
    row.verdict = match limit {
        _ if has_no_time => Verdict::NoTime,
        Some(limit) if is_kept(figures.ours, limit) => Verdict::Hit,
        Some(_) => Verdict::Miss,
        None => Verdict::Figure,
    };
}

/// As many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn text(spread: &Option<Spread>) -> String {
    let text = |s: &Spread| format!("{} [{} to {}; {}]", number(s.median), number(s.low), number(s.high), s.rounds);
    spread.as_ref().map_or(String::new(), text)
}

fn line(row: &Row) -> String {
    let (ours, question) = (text(&row.ours), &row.question);
    let bare = if row.bare.is_some() { format!("; {} {}", question.beside, text(&row.bare)) } else { String::new() };
    let rival = if row.rival.is_some() { format!("; rival {}", text(&row.rival)) } else { String::new() };
    format!("{}, {}: {ours}{bare}{rival}; {}", question.text, question.unit, row.verdict.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(limit: Limit, ours: f64, bare: f64) -> Row {
        let spread = |value| Some(Spread::of(vec![value]));
        let question = Question::new("how", "µs").beside("by hand").goal("a goal", limit);
        Row { ours: spread(ours), bare: spread(bare), ..Row::empty(question, Verdict::Figure) }
    }

    #[test]
    fn goals_are_kept_or_missed() {
        let above: fn(&Figures) -> Option<f64> = |figures| figures.bare.map(|bare| bare + 0.3);
        let rival: fn(&Figures) -> Option<f64> = |figures| figures.rival;
        let cases = [
            (Limit::AtMost(above), 1.2, Verdict::Hit),
            (Limit::AtMost(above), 1.4, Verdict::Miss),
            (Limit::AtLeast(above), 1.2, Verdict::Miss),
            (Limit::AtLeast(above), 1.4, Verdict::Hit),
            (Limit::AtMost(rival), 1.4, Verdict::Figure),
            (Limit::None, 1.4, Verdict::Figure),
            (Limit::AtMost(above), f64::NAN, Verdict::Miss),
        ];
        for (limit, ours, expected) in cases {
            let mut row = row(limit, ours, 1.0);
            judge(&mut row, false);
            assert_eq!(row.verdict, expected, "{ours}");
            judge(&mut row, true);
            assert_eq!(row.verdict, Verdict::NoTime);
        }
    }

    #[test]
    fn the_files_have_every_row_from_the_first_on() {
        let folder = std::env::temp_dir().join(format!("seriatim-gpu-table-{}", std::process::id()));
        let mut table = Table::new(&folder).unwrap();
        table.fact("device", "none").unwrap();
        let mut measured = row(Limit::AtMost(|figures| figures.bare), 1.4, 1.0);
        judge(&mut measured, false);
        table.add(measured).unwrap();
        table.unavailable(Question::new("two devices", "µs"), "one device").unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let json: Value = serde_json::from_str(&read("gpu.json")).unwrap();
        assert_eq!(json["facts"]["device"], "none");
        assert_eq!((&json["rows"][0]["verdict"], &json["rows"][0]["limit"]), (&json!("miss"), &json!(1.0)));
        assert_eq!(json["rows"][1]["verdict"], "not available: one device");
        let page = read("gpu.md");
        assert!(page.contains("| how | µs | 1.40 [1.40 to 1.40; 1] | by hand: 1.00 [1.00 to 1.00; 1] |"), "{page}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
