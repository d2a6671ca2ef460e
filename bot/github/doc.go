// Package github is the only holder of GitHub tokens: the App's private key, and
// the narrow installation tokens made from it. It reads what the bot asks for
// (standing.go, issue.go, delivered.go), performs the effects that go to GitHub
// (comment.go, label.go, pull.go), and hands single tokens to the code that pushes.
//
// It must never decide anything, never write anything but a performed effect,
// never send a token to a host other than the configured one, and never log a
// body or a token.
package github
