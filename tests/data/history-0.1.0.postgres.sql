-- The tables of 0.1.0 on a server: partitioned, and without `key` and `seq`.
CREATE SCHEMA callsheet;
CREATE TABLE callsheet.facts (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO callsheet.facts VALUES ('version', 1);
CREATE TABLE callsheet.dictionaries (
    id bigint PRIMARY KEY, data bytea NOT NULL, at float8 NOT NULL, source text NOT NULL
);
CREATE TABLE callsheet.writers (
    id text PRIMARY KEY, pid int NOT NULL, started_at float8 NOT NULL, seen_at float8 NOT NULL
);
CREATE TABLE callsheet.sessions (
    session_id text COLLATE "C" PRIMARY KEY, cwd text COLLATE "C" NOT NULL, title text NOT NULL,
    info text NOT NULL, created_at float8 NOT NULL, updated_at float8 NOT NULL
) PARTITION BY HASH (session_id);
CREATE INDEX sessions_by_use ON callsheet.sessions (updated_at, session_id);
CREATE TABLE callsheet.calls (
    session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL, position bigint NOT NULL,
    name text COLLATE "C" NOT NULL, title text NOT NULL, kind text NOT NULL,
    status text COLLATE "C" NOT NULL, reason text COLLATE "C",
    at float8 NOT NULL, updated_at float8 NOT NULL, duration_ms float8,
    writer text COLLATE "C", size bigint NOT NULL, payload bytea NOT NULL,
    PRIMARY KEY (session_id, call_id)
) PARTITION BY HASH (session_id);
ALTER TABLE callsheet.calls ALTER payload SET STORAGE EXTERNAL;
CREATE INDEX calls_by_id ON callsheet.calls (call_id);
CREATE INDEX calls_by_place ON callsheet.calls (session_id, position);
CREATE INDEX calls_by_time ON callsheet.calls (at, session_id, call_id);
CREATE INDEX calls_by_tool ON callsheet.calls (name, at);
CREATE INDEX calls_unusual ON callsheet.calls (status, at) WHERE status <> 'completed';
CREATE INDEX calls_by_reason ON callsheet.calls (reason, at) WHERE status <> 'completed';
CREATE INDEX calls_open ON callsheet.calls (writer) WHERE writer IS NOT NULL;
CREATE TABLE callsheet.messages (
    session_id text COLLATE "C" NOT NULL, message_id text COLLATE "C" NOT NULL, part int NOT NULL,
    position bigint NOT NULL, kind text NOT NULL, at float8 NOT NULL,
    size bigint NOT NULL, payload bytea NOT NULL,
    PRIMARY KEY (session_id, message_id, part)
) PARTITION BY HASH (session_id);
ALTER TABLE callsheet.messages ALTER payload SET STORAGE EXTERNAL;
CREATE INDEX messages_by_place ON callsheet.messages (session_id, position);
CREATE TABLE callsheet.blob_uses (
    session_id text COLLATE "C" NOT NULL, owner text COLLATE "C" NOT NULL, hash bytea NOT NULL,
    PRIMARY KEY (session_id, owner, hash)
) PARTITION BY HASH (session_id);
CREATE INDEX blob_uses_by_hash ON callsheet.blob_uses (hash);
-- What can be found of a call: its words, and the same in their order, for phrases.
CREATE TABLE callsheet.calls_text (
    session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
    words tsvector NOT NULL, texts text COLLATE "C" NOT NULL,
    PRIMARY KEY (session_id, call_id)
) PARTITION BY HASH (session_id);
CREATE INDEX calls_text_words ON callsheet.calls_text USING gin (words);
-- The calls that have ended and are not in calls_text yet.
CREATE TABLE callsheet.unindexed (
    session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (session_id, call_id)
) PARTITION BY HASH (session_id);
CREATE TABLE callsheet.blobs (
    hash bytea PRIMARY KEY, size bigint NOT NULL, data bytea NOT NULL
) PARTITION BY HASH (hash);
ALTER TABLE callsheet.blobs ALTER data SET STORAGE EXTERNAL;
-- The blobs that a row has used and uses no more: perhaps nobody does.
CREATE TABLE callsheet.leftovers (hash bytea PRIMARY KEY) PARTITION BY HASH (hash);

DO $$
DECLARE name text; part int;
BEGIN
    FOREACH name IN ARRAY ARRAY['sessions', 'calls', 'messages', 'blob_uses', 'calls_text',
                                'unindexed', 'blobs', 'leftovers'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format(
                'CREATE TABLE callsheet.%I PARTITION OF callsheet.%I '
                'FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                name || '_' || to_char(part, 'FM00'), name, part);
        END LOOP;
    END LOOP;
END $$;
