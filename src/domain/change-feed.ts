const nil = '00000000-0000-0000-0000-000000000000'

/** A position in a list that is sorted by the time of the last change, then by id. */
type ChangePosition = { at: Date; id: string }

/** Reads a position, or a bare time, which includes everything of that moment; null for any other text. */
export function changePositionOf(text: string): ChangePosition | null {
  const [at = '', id = nil] = text.split('|')
  return Number.isNaN(Date.parse(at)) ? null : { at: new Date(at), id }
}

/** The position behind a row. */
export function positionBehind(row: { last_updated_at: Date; id: string }): string {
  return `${row.last_updated_at.toISOString()}|${row.id}`
}

/** Reads what changed, page by page, for a flow that sends it to the ERP. */
export type ChangeFeed = (query: {
  client?: string | undefined
  /** `next` of a page, or a plain time; null begins at the oldest. */
  after: string | null
  limit: number
}) => Promise<{ rows: Record<string, unknown>[]; next: string | null }>
