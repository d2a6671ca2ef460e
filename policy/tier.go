package policy

import (
	"fmt"
	"slices"

	"nod"
)

// TierFacts is what is known of an account in a repository. Permission, RoleName
// and Permissions are those of GitHub's "get repository permissions for a user"
// (GET /repos/{owner}/{repo}/collaborators/{username}/permission).
type TierFacts struct {
	Actor       nod.Actor
	Owners      []int64 // account ids listed in the configuration, on Actor's host
	AccountType string  // "User", "Bot", …; empty when only the webhook told, see Actor.Bot
	Status      int     // HTTP status of the answer; 0 when there was none
	AnswerID    int64   // account id in the answer; 0 when it names none
	Permission  string  // base role: admin, write, read or none
	RoleName    string  // that, or maintain, triage, or the name of a custom role
	Permissions map[string]bool
}

// Tier says how far an account is trusted. Owners are known by id alone; whoever
// GitHub calls anything but a user is a bot, listed or not; everyone else is
// ranked by base permission, so that a custom role counts as what it is built on.
// What cannot be told is an outsider. The reason is for people.
func Tier(f TierFacts) nod.Standing {
	tier, reason := f.tier()
	return nod.Standing{Actor: f.Actor, Tier: tier, Reason: clean(reason)}
}

func (f TierFacts) tier() (nod.Tier, string) {
	switch {
	case f.Actor.Kind != nod.ActorGitHub:
		return nod.Outsider, "not a GitHub account"
	case f.Actor.ID <= 0:
		return nod.Outsider, "the account is gone or GitHub did not name it"
	case f.AccountType != "" && f.AccountType != "User":
		return nod.Bot, "GitHub calls the account a " + f.AccountType
	case f.Actor.Bot:
		return nod.Bot, "GitHub says that the account is not a user"
	case slices.Contains(f.Owners, f.Actor.ID):
		return nod.Owner, "listed by id in the configuration"
	case f.Status == 0:
		return nod.Outsider, "GitHub gave no answer about their permission"
	case f.Status == 404:
		return nod.Outsider, "GitHub knows no such collaborator (404)"
	case f.Status == 401 || f.Status == 403:
		return nod.Outsider, fmt.Sprintf("GitHub does not let the App see their permission (%d)", f.Status)
	case f.Status >= 500:
		return nod.Outsider, fmt.Sprintf("GitHub could not tell their permission (%d)", f.Status)
	case f.Status != 200:
		return nod.Outsider, fmt.Sprintf("GitHub answered %d about their permission", f.Status)
	case f.AnswerID != 0 && f.AnswerID != f.Actor.ID:
		return nod.Outsider, "the login belongs to another account now"
	}
	role := f.RoleName
	if role == "" {
		role = f.Permission
	}
	switch f.Permission {
	case "admin", "write":
		return nod.Writer, "has the role " + role
	case "read", "none":
		// The base of triage is read; only the role or the flag tells them apart.
		if f.Permission == "read" && (f.RoleName == "triage" || f.Permissions["triage"]) {
			return nod.Triager, "has the role " + role
		}
		return nod.Outsider, "has the role " + role + ", which cannot write"
	case "":
		return nod.Outsider, "GitHub's answer names no permission"
	default:
		return nod.Outsider, "GitHub's answer names a permission nod does not know: " + f.Permission
	}
}
