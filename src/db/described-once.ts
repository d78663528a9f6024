import { type Connection, Query, type QueryConfig, type QueryResult } from 'pg'

/** What pg makes of a statement's description: its columns, how each is read, and a row of nulls to begin with. */
type Shape = { fields: unknown[]; _parsers: unknown[]; _prebuiltEmptyResultObject: object }
/** Of pg what its types do not tell. */
type Insides = {
  name: string
  _result: Partial<Shape>
  _accumulateRows: boolean
  prepare(connection: Connection): void
  hasBeenParsed(connection: Connection): boolean
  handleRowDescription(message: object): void
}
type Constructor = new (
  config: QueryConfig,
  callback: (error: Error | null, result: QueryResult) => void,
) => Query & Insides

type Known = { shapes: Map<string, Shape>; unasked: Connection; parts: Buffer[] }
const knownOn = new WeakMap<Connection, Known>()

/**
 * A prepared statement whose columns are asked for once on each connection. pg asks for their description at each execution,
 * reads it, and finds the parsers anew: for an order with its connection, a tenth of what a read costs this process. The
 * server refuses a statement whose columns have changed, so what is known of it holds for as long as it runs.
 */
export class DescribedOnce extends (Query as unknown as Constructor) {
  #known: Known | undefined

  override prepare(connection: Connection): void {
    const known = knownOn.get(connection) ?? createKnown(connection)
    const shape = this.hasBeenParsed(connection) ? known.shapes.get(this.name) : undefined
    if (!shape) {
      this.#known = known
      super.prepare(connection)
      return
    }
    Object.assign(this._result, shape)
    this._accumulateRows = true
    super.prepare(known.unasked)
    connection.stream.write(Buffer.concat(known.parts.splice(0)))
  }

  override handleRowDescription(message: object): void {
    super.handleRowDescription(message)
    const { fields, _parsers, _prebuiltEmptyResultObject } = this._result as Shape
    this.#known?.shapes.set(this.name, { fields, _parsers, _prebuiltEmptyResultObject })
  }
}

/** The same connection, which asks for no description, and gathers what is to be sent: one write costs less than three. */
function createKnown(connection: Connection): Known {
  const parts: Buffer[] = []
  const unasked = Object.create(connection, {
    describe: { value: () => undefined },
    _send: { value: (part: Buffer) => void parts.push(part) },
  })
  const known = { shapes: new Map(), unasked, parts }
  knownOn.set(connection, known)
  return known
}
