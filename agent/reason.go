package agent

import "nod"

// Reasons a Result is not OK. The first two are the causes of the question that
// pauses the run.
const (
	ReasonAuthExpired    = string(nod.CauseAuthExpired)    // the model API refused the credentials
	ReasonQuotaExhausted = string(nod.CauseQuotaExhausted) // the model API refused for rate, quota or credit
	ReasonAPIError       = "api_error"                     // the model API failed in another way
	ReasonMaxTurns       = "max_turns"                     // the agent's own limit on turns
	ReasonMaxBudget      = "max_budget"                    // the agent's own limit on cost
	ReasonInterrupted    = "interrupted"                   // the turn was ended by Stop
	ReasonTimeout        = "turn_timeout"                  // the turn outlasted the adapter's limit
	ReasonNoResult       = "no_result"                     // the process ended in the middle of a turn
	ReasonRefused        = "refused"                       // the agent was not set up as required, or broke its protocol
	ReasonError          = "agent_error"                   // the agent gave up for a reason of its own
)
