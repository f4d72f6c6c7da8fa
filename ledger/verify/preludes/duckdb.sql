-- What the promises' SQL says in the words of Spark, for DuckDB.
CREATE OR REPLACE MACRO sha2(text, bits) AS sha256(text);
CREATE OR REPLACE MACRO unix_micros(moment) AS epoch_us(moment);
CREATE OR REPLACE MACRO startswith(text, beginning) AS starts_with(text, beginning);
CREATE OR REPLACE MACRO regexp_like(text, pattern) AS regexp_matches(text, pattern);
CREATE OR REPLACE MACRO size(items) AS len(items);
CREATE OR REPLACE MACRO try_element_at(items, number) AS list_extract(items, number);
CREATE OR REPLACE MACRO explode(items) AS unnest(items);
CREATE OR REPLACE MACRO collect_list(item) AS list(item);
CREATE OR REPLACE MACRO collect_set(item) AS list(DISTINCT item);
CREATE OR REPLACE MACRO sort_array(items) AS list_sort(items);
CREATE OR REPLACE MACRO place_of(stream, seq) AS {'stream': stream, 'seq': seq};
CREATE OR REPLACE MACRO line_numbers(items) AS range(1, len(items) + 1);
CREATE OR REPLACE MACRO decoded_name(name) AS
    CASE WHEN contains(name, '%') THEN coalesce(TRY(url_decode(name)), name) ELSE name END;
CREATE OR REPLACE MACRO lines_of(postings) AS TRY(from_json(postings,
    '[{"account":"VARCHAR","side":"VARCHAR","amount_minor":"BIGINT","currency":"VARCHAR"}]'));
CREATE OR REPLACE MACRO first_merchant(items) AS
    split_part(list_filter(items, lambda line: line.account LIKE 'merchant:%')[1].account, ':', 2);
