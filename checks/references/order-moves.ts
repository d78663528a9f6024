import { orderStates, type StateFlag } from '../../src/domain/order-state.ts'
import type { OrderEvent } from '../../src/payments/orders/decide.ts'

/** Each event: who brings it, and what the rule makes of the order. */
const events: Record<OrderEvent['kind'], [from: string, effect: string]> = {
  provider_answered: [
    'an answer of the provider to a charge, cancel, refund, status check, search or webhook',
    'the state and the money that the provider shows, unless the answer is old or about another order; the first one confirms the creation',
  ],
  not_created: [
    'a refusal that proves it, or a search after the last attempt could arrive',
    '`failed`, if the creation was not confirmed',
  ],
  creation_unknown: ['a charge without an answer', 'stays open; the sweeper goes on'],
  equal_orders_found: [
    'a search that finds orders of equal content',
    'the conflict is noted: a person must check both',
  ],
  cancel_requested: [
    'a cancel of an order that the provider has not confirmed, or that only its terminal can end',
    'nothing is sent any more that could make the charge',
  ],
  charge_settled: ['a person who decides about a charge in doubt', 'the decision is noted'],
  refund_settled: [
    'a person who decides about a refund in doubt',
    'the decision is noted; a refund that the provider does not list is added or removed',
  ],
  further_payment: [
    'the watch of payments, or a person who decides about the payment',
    'whether a further payment is open',
  ],
}

const flags: Record<StateFlag, string> = {
  open: 'the customer may still pay',
  holdsTerminal: 'the terminal is busy with it',
  showsTerminal: 'the terminal was seen to work',
  received: 'the customer paid, with or without a later refund',
  paid: 'money of it is with the shop',
  refunded: 'the customer got it back, in part or whole',
  closedUnpaid: 'it ended without a charge',
  final: 'the provider never changes it',
}

/** The page docs/internals/order-moves.md: the states, the events that move an order, and who causes them. */
export function orderMovesPage(): string {
  const names = Object.keys(flags) as StateFlag[]
  const arrows = Object.entries(orderStates).flatMap(([from, { next }]) =>
    next.map((to) => `    ${from} --> ${to}`),
  )
  const ends = Object.entries(orderStates)
    .filter(([, { final }]) => final)
    .map(([status]) => `    ${status} --> [*]`)
  return `# How an order moves

For an engineer who changes a rule. \`npm run docs:references\` writes this page from \`src/domain/order-state.ts\` and
\`src/payments/orders/decide.ts\`. [Architecture](architecture.md#evidence-how-an-order-moves) says who calls them.

## States

\`\`\`mermaid
stateDiagram-v2
    [*] --> created
${[...arrows, ...ends].join('\n')}
\`\`\`

An answer may skip states: the provider sends no event for \`at_terminal\`, and events arrive late or never. Two moves stand beside the
picture: a payment of an order that has ended without one is recorded and flagged, and a refund that fails later is taken back.

| State | ${names.map((name) => `\`${name}\``).join(' | ')} |
|---|${names.map(() => '---|').join('')}
${Object.entries(orderStates)
  .map(
    ([status, has]) =>
      `| \`${status}\` | ${names.map((name) => (has[name] ? 'yes' : '')).join(' | ')} |`,
  )
  .join('\n')}

| Flag | Meaning |
|---|---|
${names.map((name) => `| \`${name}\` | ${flags[name]} |`).join('\n')}

## Events

\`decide\` says how an order is after each event. \`moveOrder\` in \`src/payments/orders/state.ts\` alone writes that.

| Event | Brought by | Then |
|---|---|---|
${Object.entries(events)
  .map(([kind, [from, effect]]) => `| \`${kind}\` | ${from} | ${effect} |`)
  .join('\n')}
`
}
