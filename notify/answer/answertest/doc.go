// Package answertest answers decisions without a person: a passkey in software and
// a client that does over HTTP what a browser does. It exists for tests and for the
// demo, whose state is thrown away; nothing that keeps state may enrol such a
// passkey, since whoever holds the process holds the key.
package answertest
