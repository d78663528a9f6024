import { type Connection, Query, type QueryConfig, type QueryResult } from 'pg'

/** pg's form of a statement's description: its columns, their parsers, and a row of nulls. */
type Shape = { fields: unknown[]; _parsers: unknown[]; _prebuiltEmptyResultObject: object }
/** Members of pg that its types lack. */
type Insides = {
  name: string
  _result: Partial<Shape>
  _accumulateRows: boolean
  prepare(connection: Connection): void
  hasBeenParsed(connection: Connection): boolean
  handleRowDescription(message: object): void
}
type Callback = (error: Error | null, result: QueryResult) => void
type Constructor = new (
  text: string,
  values: unknown[] | undefined,
  callback: Callback,
) => Query & Insides

type Known = { shapes: Map<string, Shape>; unasked: Connection; parts: Buffer[] }
const knownOn = new WeakMap<Connection, Known>()

/**
 * A prepared statement whose columns are described once per connection. pg asks for the description at each execution,
 * reads it, and looks up the parsers again: for an order with its connection, a tenth of the cost of a read in this
 * process. The server refuses a statement whose columns have changed, so the description is valid while it runs.
 */
export class DescribedOnce extends (Query as unknown as Constructor) {
  #known: Known | undefined

  /** pg would copy a description with `Object.defineProperties`, which costs more than the rest of a query's start. */
  constructor({ name, text, values }: QueryConfig, callback: Callback) {
    super(text, values, callback)
    this.name = name ?? ''
  }

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

/** The same connection without the request for a description. It collects the messages: one write costs less than three. */
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
