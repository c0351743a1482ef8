//! The page of a campaign: properties, and groups of failures. It needs no scripts.

use std::fmt::Write as _;

use record::{CampaignRecord, EventTally, GroupRecord, InvariantTally, Reach};

use crate::escape::{escaped, path};
use crate::static_page::{self, StaticPage};

/// The seeds of a group that the page names.
const MOST_SEEDS: usize = 20;

/// The page of a campaign as one HTML file. `report`: the address of a report folder that the record names, as the page can refer
/// to it.
pub fn campaign_page(campaign: &CampaignRecord, report: impl Fn(&str) -> String) -> String {
    let body = [
        head(campaign),
        groups(campaign, report),
        invariants(campaign),
        events(campaign),
    ];
    static_page::rendered(&StaticPage {
        title: &format!("Campaign {}", campaign.suites.join(", ")),
        body: &body.concat(),
    })
}

fn head(campaign: &CampaignRecord) -> String {
    let CampaignRecord { seeds, failed, .. } = campaign;
    let (class, state) = match campaign.passed() {
        true => ("pass", "PASSED"),
        false => ("fail", "FAILED"),
    };
    let rare: Vec<String> = campaign.rare().map(|event| escaped(&event.name)).collect();
    let sentence = match (failed, campaign.groups.len()) {
        (0, _) if rare.is_empty() => format!("All {} passed", counted(*seeds, "seed")),
        (0, _) => format!(
            "All {} passed, but fewer than one of a hundred had {}",
            counted(*seeds, "seed"),
            rare.join(", ")
        ),
        (failed, 1) => format!("{failed} of {} failed, all in the same way", counted(*seeds, "seed")),
        (failed, groups) => format!("{failed} of {} failed, in {groups} ways", counted(*seeds, "seed")),
    };
    let mut facts = vec![
        ("Suites", campaign.suites.join(", ")),
        ("Lasted", format!("{:.0} s", campaign.wall_seconds)),
        (
            "Seeds a minute",
            format!("{:.0}", 60.0 * count(*seeds) / campaign.wall_seconds.max(0.001)),
        ),
        ("Version", campaign.drydock.clone()),
    ];
    let unreached = campaign
        .events
        .iter()
        .filter(|event| campaign.reach(event) == Reach::Never);
    facts.push(("Never reached", unreached.count().to_string()));
    let facts = facts
        .iter()
        .map(|(name, value)| format!("<span>{name} <b>{}</b></span>", escaped(value)));
    let note = match (campaign.interrupted, campaign.ungrouped()) {
        (true, _) => {
            "<p class=\"note\">The campaign was interrupted: its failures are not compared with undisturbed runs.</p>"
                .to_owned()
        }
        (false, 0) => String::new(),
        (false, more) => format!(
            "<p class=\"note\">In no group: {}. Only the first ones are compared with undisturbed runs.</p>",
            counted(more, "failure")
        ),
    };
    format!(
        "<header class=\"head\"><h1 class=\"verdict\"><span class=\"badge {class}\">{state}</span><span>{sentence}</span></h1>\
         <div class=\"facts\">{}</div>{note}</header>\n<main>\n",
        facts.collect::<String>()
    )
}

fn groups(campaign: &CampaignRecord, report: impl Fn(&str) -> String) -> String {
    if campaign.groups.is_empty() {
        return String::new();
    }
    let groups = campaign.groups.iter().map(|group| of_group(group, &report));
    format!(
        "<section aria-labelledby=\"failures\"><h2 id=\"failures\">Failures ({})</h2>{}</section>\n",
        campaign.groups.len(),
        groups.collect::<String>()
    )
}

fn of_group(group: &GroupRecord, report: impl Fn(&str) -> String) -> String {
    let mut html = format!(
        "<article class=\"group\"><h3>▲ {}: {}</h3>",
        escaped(&group.broken),
        counted(group.seeds.len() as u64, "seed")
    );
    if let Some(difference) = &group.first_difference {
        let _ = write!(
            html,
            "<p>First difference from the undisturbed run: <b>{}</b></p>",
            escaped(difference)
        );
    }
    let example = group.seeds.first().map_or_else(String::new, u64::to_string);
    let _ = write!(html, "<p>Seed {example}: {}</p>", escaped(&group.reason));
    if let Some(folder) = &group.report {
        let _ = write!(
            html,
            "<p><a href=\"{}/report.html\">The report of seed {example}</a></p>",
            path(&report(folder))
        );
    }
    if let Some(page) = &group.difference {
        let _ = write!(
            html,
            "<p><a href=\"{}\">Seed {example} beside its undisturbed run</a></p>",
            path(&report(page))
        );
    }
    let shown: Vec<String> = group.seeds.iter().take(MOST_SEEDS).map(u64::to_string).collect();
    let more = match group.seeds.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let _ = write!(
        html,
        "<div class=\"replay\"><span>Replay</span><code tabindex=\"0\">{}</code></div><p>Seeds: {}{more}</p></article>",
        escaped(&group.replay),
        shown.join(", ")
    );
    html
}

fn invariants(campaign: &CampaignRecord) -> String {
    let mut all: Vec<&InvariantTally> = campaign.invariants.iter().collect();
    all.sort_by_key(|invariant| (std::cmp::Reverse(invariant.violated), invariant.seeds > 0));
    let never = all.iter().filter(|invariant| invariant.seeds == 0).count();
    let rows = all.iter().map(|invariant| {
        let (class, state) = match (invariant.violated, invariant.seeds) {
            (0, 0) => ("state-undecided", "▲ never evaluated".to_owned()),
            (0, _) => ("state-held", "held".to_owned()),
            (violated, _) => ("state-violated", format!("▲ violated in {}", counted(violated, "seed"))),
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"{class}\">{state}</td>{}{}</tr>",
            escaped(&invariant.name),
            escaped(&invariant.statement),
            number(invariant.seeds),
            number(invariant.times)
        )
    });
    table(
        "invariants",
        &format!("Invariants ({}, {never} never evaluated)", all.len()),
        &["Name", "Rule", "Result", "Seeds", "Evaluations"],
        &rows.collect::<String>(),
    )
}

fn events(campaign: &CampaignRecord) -> String {
    let mut all: Vec<(Reach, &EventTally)> = campaign
        .events
        .iter()
        .map(|event| (campaign.reach(event), event))
        .collect();
    all.sort_by_key(|(reach, event)| (*reach, &event.group, &event.name));
    let never = all.iter().filter(|(reach, _)| *reach == Reach::Never).count();
    let rows = all.iter().map(|(reach, event)| {
        let (class, state) = match reach {
            Reach::Never => ("state-violated", "▲ never reached"),
            Reach::Rarely => ("state-undecided", "▲ rarely reached"),
            Reach::Reached => ("state-held", "reached"),
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{state}</td>{}{}</tr>",
            escaped(&event.name),
            escaped(&event.group),
            if event.declared { "yes" } else { "" },
            number(event.seeds),
            number(event.times)
        )
    });
    table(
        "events",
        &format!("Events ({}, {never} never reached)", all.len()),
        &["Name", "Group", "Declared", "Result", "Seeds", "Times"],
        &rows.collect::<String>(),
    ) + "</main>\n"
}

fn table(id: &str, title: &str, columns: &[&str], rows: &str) -> String {
    let columns = columns.iter().map(|name| format!("<th scope=\"col\">{name}</th>"));
    format!(
        "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2><div class=\"wrap\"><table><thead><tr>{}</tr></thead>\
         <tbody>{rows}</tbody></table></div></section>\n",
        columns.collect::<String>()
    )
}

fn number(number: u64) -> String {
    format!("<td class=\"count\">{number}</td>")
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
#[path = "campaign_tests.rs"]
mod tests;
