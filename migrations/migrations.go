// Package migrations holds the schema of the store as forward-only SQL files,
// NNNN_verb_noun.sql, embedded in order. A file that has been released is never
// edited: package store refuses to start on one whose SHA-256 has changed.
package migrations

import "embed"

// Files holds the migrations.
//
//go:embed *.sql
var Files embed.FS
