//! Reports of records, opened in a page.

use std::path::{Path, PathBuf};

use browser::Page;
use record::RunRecord;
use tempfile::TempDir;

/// A run in which a machine got a second VM after its controller lost the Lease: the `run.drydock.json` of
/// `drydock run r04-lost-lease --stage sim --seed 1 --mutant R04`.
const TWO_VMS: &[u8] = include_bytes!("fixtures/two-vms.json");

/// The record of a failed run.
pub(crate) fn failed_run() -> RunRecord {
    record::read(TWO_VMS).unwrap()
}

/// A report in a file, opened in a page.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) page: Page,
    pub(crate) url: String,
    // Its file.
    _folder: TempDir,
}

impl Report {
    /// Opens the report of a record and waits until it is shown; `None`: there is no browser.
    pub(crate) fn open(record: &RunRecord) -> Option<Self> {
        Self::with_fragment(record, "")
    }

    /// Opens a link into the report of a record.
    pub(crate) fn with_fragment(record: &RunRecord, fragment: &str) -> Option<Self> {
        let report = Self::of_html(&web::page(record).unwrap(), fragment)?;
        report.page.wait("!document.getElementById('main').hidden");
        report.page.frame();
        Some(report)
    }

    /// Opens a page that may be damaged.
    pub(crate) fn of_html(html: &str, fragment: &str) -> Option<Self> {
        let page = browser::shared()?.page();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        std::fs::write(&file, html).unwrap();
        let url = format!("file://{}", file.display());
        page.open_url(&format!("{url}{fragment}"));
        Some(Self {
            page,
            url,
            _folder: folder,
        })
    }

    /// The number of events that the list contains.
    pub(crate) fn listed(&self) -> usize {
        self.page.frame();
        let head = self.page.text("document.getElementById('list-head').textContent");
        let digits = head
            .split(' ')
            .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
        digits.unwrap().replace(',', "").parse().unwrap()
    }

    /// The heading of the selected event.
    pub(crate) fn selected(&self) -> String {
        self.page.frame();
        self.page.text("document.querySelector('#detail h2').textContent")
    }
}

/// A picture of the documents.
pub(crate) fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/images")
        .join(name)
}

/// A record with that number of events and states, without a violation.
pub(crate) fn large(count: usize) -> RunRecord {
    let mut record = failed_run();
    let template = record.points.clone();
    let count = u32::try_from(count).unwrap();
    record.points = (1..=count)
        .map(|number| {
            let mut point = template[(number as usize - 1) % template.len()].clone();
            // Causes and previous writes are those of the same round.
            let before = number - point.number;
            point.cause = point.cause.map(|cause| cause + before).filter(|cause| *cause <= count);
            point.previous = point.previous.map(|previous| previous + before);
            point.seen.iter_mut().for_each(|seen| *seen += before);
            point.seen.retain(|seen| *seen <= count);
            point.number = number;
            point.at = record::Micros(u64::from(number) * 1000);
            point.violates = None;
            point
        })
        .collect();
    record.meta.lasted = record::Micros(u64::from(count) * 1000);
    record.meta.verdict.point = None;
    record.spans.iter_mut().for_each(|span| span.cause = None);
    record.checks.iter_mut().for_each(|check| check.violated = None);
    record
}
