// Package answer is verb ⑥, Answer: the page on which a person reads what would
// be allowed and answers it with a passkey that signs exactly that.
//
// A GET never changes anything. A session lets its holder read; every answer is a
// WebAuthn assertion of its own, over nod.AnswerChallenge. The package holds no
// GitHub token and starts nothing: it reads and records.
package answer
