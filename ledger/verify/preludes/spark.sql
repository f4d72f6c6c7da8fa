-- What the promises' SQL says beyond Spark's own functions.
CREATE OR REPLACE TEMPORARY FUNCTION place_of(stream STRING, seq BIGINT) RETURNS STRUCT<stream: STRING, seq: BIGINT>
    RETURN named_struct('stream', stream, 'seq', seq);
CREATE OR REPLACE TEMPORARY FUNCTION line_numbers(
    items ARRAY<STRUCT<account: STRING, side: STRING, amount_minor: BIGINT, currency: STRING>>) RETURNS ARRAY<BIGINT>
    RETURN IF(size(items) > 0, sequence(1L, CAST(size(items) AS BIGINT)), array());
CREATE OR REPLACE TEMPORARY FUNCTION sha256_of(text STRING) RETURNS STRING RETURN sha2(text, 256);
CREATE OR REPLACE TEMPORARY FUNCTION crc32_of(text STRING) RETURNS BIGINT RETURN crc32(CAST(text AS BINARY));
CREATE OR REPLACE TEMPORARY FUNCTION lines_of(postings STRING)
    RETURNS ARRAY<STRUCT<account: STRING, side: STRING, amount_minor: BIGINT, currency: STRING>>
    RETURN from_json(postings, 'array<struct<account:string,side:string,amount_minor:bigint,currency:string>>');
CREATE OR REPLACE TEMPORARY FUNCTION first_merchant(
    items ARRAY<STRUCT<account: STRING, side: STRING, amount_minor: BIGINT, currency: STRING>>) RETURNS STRING
    RETURN split_part(try_element_at(filter(items, line -> line.account LIKE 'merchant:%'), 1).account, ':', 2);
CREATE OR REPLACE TEMPORARY FUNCTION decoded_name(name STRING) RETURNS STRING
    RETURN coalesce(try_url_decode(replace(name, '+', '%2B')), name);
