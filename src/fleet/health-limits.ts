/**
 * A terminal that is on has an order within seconds; one that did not show it after so long, though the provider was asked,
 * is off or offline. With looks every 2 s and a derivation every few seconds it is known within 30 s of its first charge.
 */
export const silentAfterMs = 20_000

/** A charge that holds its own box's terminal is a customer who pays, until then. */
export const payingForMs = 3 * 60_000

/** A terminal keeps an order a little longer than its time: the provider ends it by itself. */
export const expiryGraceMs = 60_000

/** What worked so recently counts as working. */
export const freshMs = 15 * 60_000

/**
 * Charges that would usually have come in a silence before it is called unusual: were they independent, one silence in
 * 3,000 of a box at work would be this long by chance.
 */
export const missedCharges = 8

/** Refusals in a row that are more than one sale's bad luck. */
export const manyRefusals = 3

/** How many of the newest attempts tell how a kind of call fares, and for how long they tell it. */
export const callsWeighed = 10
export const callsTellMs = 10 * 60_000
/** Fewer good ones tell as much, once nothing has failed for a while. */
export const goodCalls = 3
export const goodForMs = 30_000
/** The share of failures from which on calls fail, and count as impaired. */
export const failingShare = 0.5
export const impairedShare = 0.2

/** A token that nothing can renew is told of a week before it ends. */
export const tokenEndsWithinMs = 7 * 24 * 3600_000
/** A renewal takes seconds. */
export const renewalStuckMs = 10 * 60_000

/** Ends that nobody was told of, in a row and over a time, before webhooks count as missing. */
export const untoldEnds = 5
export const untoldForMs = 5 * 60_000

/** How long a flow may be late, beyond two of its intervals. */
export const pollGraceMs = 60_000
/** How long an item may be owed to a destination that is in no other trouble. */
export const owedForMs = 15 * 60_000

/** Attempts are counted by stretches of this length. */
export const slotMs = 10_000
