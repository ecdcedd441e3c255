"""What differs from the recording on purpose; empty whenever it is recorded anew."""

from __future__ import annotations

MEANT: dict[str, str] = {
    r"^commands/help \d+: judged( [a-z ]+)?( --help)?: std": "Click writes the help: the options "
    "that a command has alone stand before those that it shares.",
    r"Usage: judged \w+ \[OPTIONS\] \{": "Click writes the usage.",
    r"is not in the range 1<=x<=366": "Click says what a number must be.",
    r"--param \w+: no such parameter; this judge has": "The server refuses parameters, once.",
    r"--code-quality q.json": "Refused before anything is compared or written.",
    r"judged validate dataset.json --json -: stdout.warnings": "Each command that takes --strict "
    "has its warnings in the document.",
    r"commands/help \d+: judged-server( tenants| cache)? --help": "Limits of requests stand last.",
    r"answer_equivalence .*errors.*code: 3 -> 9": "A fault's code follows from its reason.",
    r"entries for \d+ (document|rating|metric|value)": "Columns of different lengths are told of "
    "alike.",
    r"is that of [\w.\[\]]+ again": "What is there twice is named by its whole path.",
    r"canary.*(item_id|\.id: |guarantee)": "A canary has items as other files, and a guarantee.",
    r"files\.my\.cascade\.json\.": "A cascade's file is the cascade, with one hash of all of it.",
    r"must bring a calibrator or name one": "One wording for a choice that is not set.",
    r'HTTP .*"takes .* -> "must be|HTTP .*: takes .*: must be': "What fields take is told by type.",
    r"no such call; ": "The port of HTTP says where its calls are listed.",
    r": judged judges( |:)": "Thresholds begin at the left, and a server speaks of its own flags.",
    r"takes its settings as JUDGED_": "How a private server takes a setting is told once.",
    r"no rubric is called|has no dimensions|names a model twice|must name 2 to 16": "The server "
    "refuses rubrics, weights and panels, once.",
    r"repeat --metric for each metric|use judged (evaluate|score)|or run judged score": "The "
    "server's words are kept.",
    r"numbers from 0 to 1, one more than edges": "Rules stand in one table, with their words.",
    r"in a script (that|without)": "A warning for each metric.",
    r"judged doctor|extra (server|cli)": "A private server names the extras it lacks.",
    r"judged agree .*stdout": "The table of two raters has no sums.",
    r"judged calibrate .*stdout": "Estimates of a judge stand in one table.",
    r"--judge(-model \w+)?: (no judge|language model)": "The server's words "
    "name the judge or model that is not there.",
    r"--confidence 2|--days 400": "The server says what a number must be.",
    r"the alarm began with": "The check is told by its time, whichever it is.",
    r"--min-score .*METRIC=X": "Gates of rubrics and of metrics are refused alike.",
    r"a claim is (empty|no text)|cli 05.*calls answered|score 01.*(scores\.sha|usage|calls)": (
        "One rule says what a claim is; the model that repairs a reply reads its words."
    ),
    r"^commands/compare and report 01: .*stdout line 1": "A difference adds columns to the table.",
    r"no 'inclusion_probability'; it is no file": "A line of labels has fields as other files.",
    r"\.(svg|html)[.: ]": "Charts are templates.",
    r"HTTP (half a character|two halves)": "A name of half a character is none of the contract's; "
    "that of a map is told with its place.",
    r"^CompareRuns judged #4: comparisons": "Standard errors are summed pairwise, which "
    "the twelfth digit shows.",
    r"the run is.*the run is": "Comparisons have one word for what a test says.",
    r"in the cache +\d+.*cache hits": "An estimate is told by the names of its fields.",
    r"which a judgment list is made of": "One sentence for an id that a judgment list can't hold.",
    r"a comparison needs at least two runs": "Says what to do alone.",
    r"llm, logprobs|GetServerInfo .*judges\.sha256": "There are no scores by log-probabilities.",
    r"(fingerprint|scoring_key|stages_sha256): |(llm/|members:)[0-9a-f]{8}|members:exact"
    r"|^(StreamJudge llm|ScoreAnswers)[^:]*: sha256|--trace t\.jsonl[^:]*: files": "The parser of "
    "replies has another version, which is in the keys of judges that ask models.",
    r"avoided_(calls|cost)": "What a cascade avoided is not estimated.",
    r"judge\.calibration: was made": "Told by its flag.",
    r'-> "[^"]*(must be (from|at least|above) [-\d]|is that of |\d+ entries for )': "Intervals, "
    "repeats and lengths are each told in one way.",
    r'-> "[^"]*(no query that is measured|must hold (at least two|a text|no panel))': "One rule "
    "for each.",
    r"PanelMember\.judge judge\.members\[0\]\.judge\.members: .*field": "A panel in a panel is a "
    "fault of the outer one's members.",
    r"(held|fell short): |change.json.gates|is not measured; add": "Gates are told in one form.",
    r"is a data set, for|is read too|can't be written; name|has no 'system'": "One wording each.",
    r"--param samples|has no line with|--cache-only: |--cascade: the file": "One wording each.",
    r"of data like the|leave it out": "One wording for a refusal, or a promise.",
    r"stage 1 settled|judged: trace t|calls avoided": "What cascades and traces have is in files.",
    r"--max-drop|--baseline none|tutorial 06: |is no document": "Runs are held "
    "against others by compare and ci.",
    r"--trace-texts hash|--judge none --trace t": "A trace has texts, and is all that stands for a "
    "judge.",
    r"^RankSystems RankSystemsRequest.systems systems #2": "Too many names are more than a limit.",
    r"score .*--member small|commands/help \d+: judged score": "No panel scores answers.",
    r"--(per-item|weights|moved|difference|github|diagram) |branch.json --baseline main.json --max|"
    r"compare (out.json out|new.json --b)|docs/calibration 0[34]|commands/labels 11": (
        "Options of commands are gone, and what later ones read of them."
    ),
    r"judged rank .*stdout line 7|judged usage --json|ends in none of \.html": "Told with less.",
    r"system_fingerprints": "A canary is told by its models.",
    r"files\.t\.jsonl": "A trace says nothing twice, and of votes no majority.",
    r"a table of labels|docs/labelling": "Items are labelled on the screen alone.",
    r"convert .*(made.csv|made.nope|--results|cannot_hold)": "What a format holds is told in one "
    "sentence, and results are not converted.",
    r"result 1 has no span|looks like|is it what is called|is a folder; name": "A refusal names "
    "the place and no guess.",
    r"MeasureAgreement .*(interval|warnings)|judged agree .*interval": "Agreement resamples items.",
    r"embedding.(batch|precision)|judged-server --help": "A server has fewer settings.",
    r"uncertified_|labels of .* clusters count|labels #2: quality|labels 05.*warnings": "A bound "
    "that is not promised is not shown.",
    r"per_query_(lower|upper)|half_width_with_more|^ComputeMetrics HumanLabels": "Single queries "
    "have no bounds, and more labels are not forecast.",
    r"must hold at least one item that|entry before it|below 8, the number of": "Columns that list "
    "places are refused alike.",
    r"write it as name=value, each name once": "What is given twice is told with it.",
    r"has no 'format' ": "A file of another format is told of alike.",
    r"^CalibrateCascade CalibrateCascadeRequest.stages stages|options\.slice_by\[(0|16)\]": "Too "
    "many judges or keys are more than a limit, and names are refused alike.",
    r"set one of judge or score": "One wording for a choice that is not set.",
    r"CompareRunsRequest.qrels_columns qrels:": "What must be left unset is named itself.",
}
"""Why a difference is meant, by a pattern of the lines that tell it."""

RENAMED: dict[str, str] = {}
"""The names that fields of replies and documents have in the recording, by their new ones."""
