/** How a life ends: in front of a step, while its answer is awaited, or right after it. */
export const moments = ['before', 'during', 'after'] as const
export type Moment = (typeof moments)[number]

/** Statements of a poll and of a delivery, as the service writes them, each a step at which it may die. */
const statements = [
  ['hashes are compared', /^select "pk", coalesce\(seen_as, hash\) as "hash" from "flow_items"/],
  ['hashes are written', /^insert into "flow_items"/],
  ['hashes are removed', /^delete from "flow_items"/],
  ['deliveries are written', /^with found as materialized .*insert into deliveries/s],
  ['the poll is written', /^with "recorded" as \(insert into "flow_polls"/],
  ['deliveries are claimed', /^\(select pk, version.* from deliveries/s],
  [
    'what arrived is written',
    /^with .*locked as materialized .*update deliveries set\s+state = 'done'.*counted as/s,
  ],
  [
    'what else came of attempts is looked at',
    /^with\s+locked as materialized .*update deliveries set\s+state = 'done'/s,
  ],
  ['what did not arrive is written', /^with given as materialized .*update deliveries as row set/s],
  ['claims are proven', /from "leases" .* for (?:key )?share$/],
  ['ids of others are remembered', /^insert into remembered_values/],
  ['a fill is asked for', /^insert into destination_fills/],
  ['a fill is done', /^delete from "destination_fills"/],
  ['deletes are held', /^insert into "held_deletes"/],
  ['something held is approved', /^insert into "delete_approvals"/],
] as const

/** Steps that nobody comes to unless somebody does something. */
const rare: ReadonlySet<string> = new Set([
  'ids of others are remembered',
  'a fill is asked for',
  'a fill is done',
  'a flow is held',
  'a held flow goes on',
  'deletes are held',
  'something held is approved',
])

/** An embedded database is one process's alone, which has nothing to prove. */
const stepsOfSeveralProcesses: ReadonlySet<string> = new Set(['claims are proven'])

const commits = [
  'changes are committed',
  'the poll is committed',
  'outcomes are committed',
] as const

/** Seen from outside: the child is killed by whoever it speaks with. */
export const outsideSteps = [
  'the source is asked',
  'half of the source is read',
  'the target is asked',
  'the target has done it',
  'the target has answered',
] as const

export type StatementStep = (typeof statements)[number][0] | (typeof commits)[number]
export type OutsideStep = (typeof outsideSteps)[number]

const statementSteps: readonly StatementStep[] = [...statements.map(([name]) => name), ...commits]

/** The step that a statement is; undefined for what is none. `before` are the steps of its transaction so far. */
export function stepOf(
  text: string,
  before: ReadonlySet<StatementStep>,
): StatementStep | undefined {
  const plain = text.trim()
  if (/^commit$/i.test(plain)) {
    if (before.has('what else came of attempts is looked at')) return 'outcomes are committed'
    if (before.has('deliveries are written')) return 'changes are committed'
    return before.has('the poll is written') ? 'the poll is committed' : undefined
  }
  return statements.find(([, pattern]) => pattern.test(plain))?.[0]
}

/** Where a process dies; without a moment it is whoever it speaks with that kills it. */
export type Place = { step: StatementStep; moment: Moment } | { step: OutsideStep; moment?: never }

export function placesOf(isEmbedded: boolean): readonly Place[] {
  return [
    ...stepsOf(isEmbedded).flatMap((step) => moments.map((moment) => ({ step, moment }))),
    ...outsideSteps.map((step) => ({ step })),
  ]
}

export const nameOf = ({ step, moment }: Place): string =>
  moment === undefined ? step : `${moment}: ${step}`

/** Which steps there are; nobody dies at one that is never passed. */
export function stepsOf(isEmbedded: boolean): readonly StatementStep[] {
  return statementSteps.filter((step) => !isEmbedded || !stepsOfSeveralProcesses.has(step))
}

export const isRare = ({ step }: Pick<Place, 'step'>): boolean => rare.has(step)
