// Package ntfytest is a small ntfy server inside the process: what tests and the
// demo publish to, with a page at /phone that shows the pushes as they arrive.
//
// It speaks the part of ntfy's protocol that nod and its readers use: JSON publish
// at the root, publish by PUT or POST with headers, subscribe as NDJSON or SSE with
// since and poll, access tokens, /v1/health, and ntfy's error bodies. Memory is
// bounded: everything is forgotten, oldest first. It must never be taken for a
// server to put on a network: it has one token, and /phone asks for none.
package ntfytest
