// Package agent is verb ④, Drive: the contract for coding agents. An Adapter
// speaks one program's wire format and turns it into the project's events; every
// permission prompt goes to the Approver it was given, and whatever does not come
// back as an explicit allow is a denial.
//
// This package never sees the store, a notifier or a GitHub token.
package agent
