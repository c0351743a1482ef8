//! The faults of kubelets, as flags and as text.

use clap::{Args, ValueEnum};
use fakecloud::proto::kubelet_fault::Fault;
use fakecloud::proto::{Flapping, KubeletFault, KubeletState, NodeCondition, Nothing};
use mcm_api::GoDuration;

use crate::cli::Stop;

/// The faults, spelled as in YAML files; the spelling with dashes is accepted, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "camelCase")]
enum Name {
    /// It does not run; the containers on its VM run
    Stopped,
    /// It and its pods run, but it cannot reach the API server
    Partitioned,
    /// It does nothing, and later continues as if no time had passed
    Frozen,
    /// It is alternately down and up: --period, --up-percent, --down
    Flapping,
    /// Each of its API calls is delayed by --delay
    Slow,
    /// It is not ready for --delay after each start and outage
    #[value(alias = "slow-recovery")]
    SlowRecovery,
    /// All times that it writes differ by --by
    #[value(alias = "clock-skew")]
    ClockSkew,
    /// It registers again when its Node is deleted
    Zombie,
    /// It deletes a Node of its name that belongs to another VM
    #[value(alias = "take-over")]
    TakeOver,
}

/// The state of a flapping kubelet while it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Down {
    Stopped,
    Partitioned,
    Frozen,
}

/// The faults and conditions to set.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct FaultArguments {
    /// The fault of the kubelet. Of the first four, a kubelet has only one at a time
    #[arg(long, value_name = "FAULT", value_enum)]
    with: Option<Name>,

    /// Duration of one down and one up phase together (flapping) [default: 20s]
    #[arg(long, value_name = "DURATION")]
    period: Option<GoDuration>,

    /// Percentage of the period in which it is up (flapping) [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=99))]
    up_percent: Option<u32>,

    /// Its state while it is down (flapping) [default: partitioned]
    #[arg(long, value_name = "HOW", value_enum)]
    down: Option<Down>,

    /// Delay of each call (slow); time until it is ready (slowRecovery)
    #[arg(long, value_name = "DURATION")]
    delay: Option<GoDuration>,

    /// Offset of its clock; negative if it is behind: -30s (clockSkew)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = offset)]
    by: Option<i64>,

    /// Duration of the fault; by default it lasts until `drydock nodes repair`
    #[arg(long, value_name = "DURATION")]
    lasts: Option<GoDuration>,

    /// A condition of the Node to set, for example DiskPressure=True:NoSpace
    #[arg(long, value_name = "TYPE=STATUS[:REASON]", value_parser = condition)]
    condition: Vec<NodeCondition>,
}

impl FaultArguments {
    /// The fault, if one is specified.
    ///
    /// # Errors
    /// When a parameter is missing or belongs to another fault.
    pub(super) fn fault(&self) -> Result<Option<KubeletFault>, Stop> {
        self.check()?;
        let Some(name) = self.with else { return Ok(None) };
        let nothing = Nothing {};
        let delay = || {
            let delay = self.delay.map(nanos);
            delay.ok_or_else(|| {
                Stop::Usage(format!(
                    "--with {} needs --delay, for example --delay 2s",
                    flag_value(name)
                ))
            })
        };
        let fault = match name {
            Name::Stopped => Fault::Stopped(nothing),
            Name::Partitioned => Fault::Partitioned(nothing),
            Name::Frozen => Fault::Frozen(nothing),
            Name::Flapping => Fault::Flapping(Flapping {
                period_nanos: self.period.map_or(20_000_000_000, nanos),
                up_percent: self.up_percent.unwrap_or(50),
                down: match self.down {
                    Some(Down::Stopped) => KubeletState::Stopped,
                    Some(Down::Partitioned) | None => KubeletState::Partitioned,
                    Some(Down::Frozen) => KubeletState::Frozen,
                }
                .into(),
            }),
            Name::Slow => Fault::SlowNanos(delay()?),
            Name::SlowRecovery => Fault::SlowRecoveryNanos(delay()?),
            Name::ClockSkew => Fault::ClockSkewNanos(
                self.by
                    .ok_or_else(|| Stop::Usage("--with clockSkew needs --by, for example --by -30s".to_owned()))?,
            ),
            Name::Zombie => Fault::Zombie(nothing),
            Name::TakeOver => Fault::TakeOver(nothing),
        };
        Ok(Some(KubeletFault { fault: Some(fault) }))
    }

    /// Duration of the fault in nanoseconds; `None`: until it is removed.
    pub(super) fn lasts(&self) -> Option<u64> {
        self.lasts.map(nanos)
    }

    /// The conditions.
    pub(super) fn conditions(&self) -> &[NodeCondition] {
        &self.condition
    }

    /// Refuses parameters that belong to another fault.
    fn check(&self) -> Result<(), Stop> {
        if self.with.is_none() && self.condition.is_empty() {
            let names: Vec<String> = Name::value_variants().iter().copied().map(flag_value).collect();
            return Err(Stop::Usage(format!(
                "specify a fault or condition: --with {}, or --condition TYPE=STATUS",
                names.join("|")
            )));
        }
        let flapping = &[Name::Flapping][..];
        let given = [
            ("--period", self.period.is_some(), flapping),
            ("--up-percent", self.up_percent.is_some(), flapping),
            ("--down", self.down.is_some(), flapping),
            ("--delay", self.delay.is_some(), &[Name::Slow, Name::SlowRecovery]),
            ("--by", self.by.is_some(), &[Name::ClockSkew]),
            ("--lasts", self.lasts.is_some(), Name::value_variants()),
        ];
        for (flag, given, of) in given {
            if given && !self.with.is_some_and(|name| of.contains(&name)) {
                let of: Vec<String> = of.iter().copied().map(flag_value).collect();
                return Err(Stop::Usage(format!("{flag} is for --with {}", of.join(" or "))));
            }
        }
        Ok(())
    }
}

/// The value of `--with` for a fault.
fn flag_value(name: Name) -> String {
    let value = name.to_possible_value();
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn nanos(duration: GoDuration) -> u64 {
    u64::try_from(duration.0.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration with an optional sign, in nanoseconds.
fn offset(text: &str) -> Result<i64, String> {
    let (sign, length) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let length: GoDuration = length
        .parse()
        .map_err(|_| "write a duration such as 30s or -30s".to_owned())?;
    let nanos = i64::try_from(length.0.as_nanos()).map_err(|_| "the duration is too long".to_owned())?;
    Ok(sign * nanos)
}

fn condition(text: &str) -> Result<NodeCondition, String> {
    let (kind, rest) = text
        .split_once('=')
        .ok_or_else(|| "write TYPE=STATUS, for example DiskPressure=True".to_owned())?;
    let (status, reason) = rest.split_once(':').unwrap_or((rest, ""));
    if kind.is_empty() {
        return Err("the type is missing: write for example DiskPressure=True".to_owned());
    }
    if !["True", "False", "Unknown"].contains(&status) {
        return Err(format!("{status:?} is no status: write True, False or Unknown"));
    }
    Ok(NodeCondition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
    })
}

/// A short description of a fault.
pub(super) fn describe(fault: &KubeletFault) -> String {
    let long = |nanos: u64| GoDuration(std::time::Duration::from_nanos(nanos));
    match &fault.fault {
        None => "unknown".to_owned(),
        Some(Fault::Stopped(_)) => flag_value(Name::Stopped),
        Some(Fault::Partitioned(_)) => flag_value(Name::Partitioned),
        Some(Fault::Frozen(_)) => flag_value(Name::Frozen),
        Some(Fault::Flapping(flapping)) => {
            let period = long(flapping.period_nanos);
            let up = flapping.up_percent;
            format!("flapping({period},{up}%up,{})", state(flapping.down()))
        }
        Some(Fault::SlowNanos(nanos)) => format!("slow({})", long(*nanos)),
        Some(Fault::SlowRecoveryNanos(nanos)) => format!("slowRecovery({})", long(*nanos)),
        Some(Fault::ClockSkewNanos(nanos)) => {
            let sign = if *nanos < 0 { "-" } else { "+" };
            format!("clockSkew({sign}{})", long(nanos.unsigned_abs()))
        }
        Some(Fault::Zombie(_)) => flag_value(Name::Zombie),
        Some(Fault::TakeOver(_)) => flag_value(Name::TakeOver),
    }
}

/// The name of a kubelet's state.
pub(super) fn state(state: KubeletState) -> &'static str {
    match state {
        KubeletState::Unspecified => "unknown",
        KubeletState::Up => "up",
        KubeletState::Stopped => "stopped",
        KubeletState::Partitioned => "partitioned",
        KubeletState::Frozen => "frozen",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        faults: FaultArguments,
    }

    fn read(line: &str) -> Result<FaultArguments, String> {
        let line = Line::try_parse_from(std::iter::once("break").chain(line.split_whitespace()));
        line.map(|line| line.faults).map_err(|error| error.to_string())
    }

    #[rstest]
    #[case("--with stopped", "stopped")]
    #[case("--with partitioned --lasts 1m", "partitioned")]
    #[case("--with frozen", "frozen")]
    #[case("--with flapping", "flapping(20s,50%up,partitioned)")]
    #[case(
        "--with flapping --period 1m --up-percent 25 --down stopped",
        "flapping(1m0s,25%up,stopped)"
    )]
    #[case("--with slow --delay 1500ms", "slow(1.5s)")]
    #[case("--with slowRecovery --delay 30s", "slowRecovery(30s)")]
    #[case("--with slow-recovery --delay 30s", "slowRecovery(30s)")]
    #[case("--with clockSkew --by -30s", "clockSkew(-30s)")]
    #[case("--with clock-skew --by 5m", "clockSkew(+5m0s)")]
    #[case("--with zombie", "zombie")]
    #[case("--with takeOver", "takeOver")]
    #[case("--with take-over", "takeOver")]
    fn each_fault_is_read_with_its_parameters(#[case] line: &str, #[case] expected: &str) {
        let fault = read(line).unwrap().fault().unwrap().unwrap();
        assert_eq!(describe(&fault), expected);
    }

    #[rstest]
    #[case::nothing(
        "",
        "specify a fault or condition: --with stopped|partitioned|frozen|flapping|slow|slowRecovery|clockSkew|zombie|takeOver"
    )]
    #[case::foreign_period("--with slow --delay 1s --period 3s", "--period is for --with flapping")]
    #[case::foreign_delay("--with stopped --delay 1s", "--delay is for --with slow or slowRecovery")]
    #[case::foreign_offset("--with slow --delay 1s --by 1s", "--by is for --with clockSkew")]
    #[case::no_delay("--with slow-recovery", "--with slowRecovery needs --delay")]
    #[case::no_offset("--with clock-skew", "--with clockSkew needs --by")]
    #[case::end_of_a_condition("--condition DiskPressure=True --lasts 1m", "--lasts is for --with stopped")]
    fn a_missing_or_foreign_parameter_is_an_error(#[case] line: &str, #[case] expected: &str) {
        let error = read(line).unwrap().fault().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[rstest]
    #[case::unknown_fault(
        "--with broken",
        "possible values: stopped, partitioned, frozen, flapping, slow, slowRecovery"
    )]
    #[case::always_up("--with flapping --up-percent 100", "1..=99")]
    #[case::bad_offset("--with clock-skew --by soon", "30s or -30s")]
    #[case::no_status("--condition DiskPressure", "TYPE=STATUS")]
    #[case::bad_status("--condition DiskPressure=true", "True, False or Unknown")]
    #[case::no_type("--condition =True", "the type is missing")]
    fn the_error_of_an_invalid_value_contains_a_valid_one(#[case] line: &str, #[case] expected: &str) {
        let error = read(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_condition_has_type_status_and_an_optional_reason() {
        let arguments = read("--condition DiskPressure=True:NoSpace --condition Ready=False").unwrap();
        assert_eq!(arguments.fault().unwrap(), None);
        let conditions = arguments.conditions();
        let parts = |at: usize| {
            let condition: &NodeCondition = &conditions[at];
            (
                condition.r#type.as_str(),
                condition.status.as_str(),
                condition.reason.as_str(),
            )
        };
        assert_eq!(parts(0), ("DiskPressure", "True", "NoSpace"));
        assert_eq!(parts(1), ("Ready", "False", ""));
    }
}
