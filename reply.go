package nod

// What nod says to whoever gave a command. Both kinds of effect may belong to no
// task, so their intents say where they happen.
const (
	EffectReact EffectKind = "react" // a reaction to a comment
	EffectReply EffectKind = "reply" // a comment of one line, by itself
)

// Place is an issue or a pull request, and the installation that reaches it.
type Place struct {
	Repo         Repo  `json:"repo"`
	Installation int64 `json:"installation"`
	Issue        int   `json:"issue"`
}

// Reaction is one of the reactions that GitHub knows.
type Reaction string

const (
	ReactObeyed  Reaction = "+1"
	ReactAsked   Reaction = "eyes"     // the owner is asked first
	ReactRefused Reaction = "confused" // see the reply or the status comment
)

// React is the intent of EffectReact. The same reaction twice is one.
type React struct {
	Place
	Comment int64    `json:"comment"`
	Content Reaction `json:"content"`
}

// Reply is the intent of EffectReply. Marker is unique to it, hidden, and by it the
// comment is found again. The outcome is a CommentOutcome.
type Reply struct {
	Place
	Marker string `json:"marker"`
	Body   string `json:"body"`
}
