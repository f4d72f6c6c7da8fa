-- Every reversing entry takes back one booking whole, once, and names the approval that caused it.
WITH entries AS (
    SELECT seq, item_seq, cause_seq, lines FROM journal WHERE decision = 'reversed' AND NOT first),
bookings AS (
    SELECT seq AS booked_in, item_seq, lines
    FROM whole
    WHERE decision = 'applied' AND postings IS NOT NULL AND item_seq IN (SELECT item_seq FROM entries)),
all_lines AS (
    SELECT seq, explode(lines) AS posting FROM entries
    UNION ALL SELECT booked_in, explode(lines) FROM bookings),
taken_back AS (
    SELECT seq, sort_array(collect_list(concat_ws(chr(31), posting.account,
               CASE posting.side WHEN 'debit' THEN 'credit' ELSE 'debit' END,
               CAST(posting.amount_minor AS string), posting.currency))) AS lines
    FROM all_lines GROUP BY seq),
booked AS (
    SELECT seq, sort_array(collect_list(concat_ws(chr(31), posting.account, posting.side,
               CAST(posting.amount_minor AS string), posting.currency))) AS lines
    FROM all_lines GROUP BY seq),
approvals AS (
    SELECT seq AS approved_by FROM whole WHERE decision = 'reversed' AND first AND event_type = 'reverse')
SELECT entries.item_seq, min(entries.seq) AS seq, count(*) AS reversals, count(booked_in) AS bookings,
       count(approved_by) AS approvals, bool_and(coalesce(booked.lines = taken_back.lines, false)) AS mirrored
FROM entries
     LEFT JOIN bookings ON bookings.item_seq = entries.item_seq
     LEFT JOIN booked ON booked.seq = booked_in
     LEFT JOIN taken_back ON taken_back.seq = entries.seq
     LEFT JOIN approvals ON approved_by = cause_seq
GROUP BY entries.item_seq
HAVING count(*) <> 1 OR count(booked_in) <> 1 OR count(approved_by) <> 1
       OR NOT bool_and(coalesce(booked.lines = taken_back.lines, false))
