import { type PGlite, parse, protocol, type Results } from '@electric-sql/pglite'
import { isOutdatedStatement } from './database-failures.ts'
import { StatementNames } from './statement-names.ts'

const { serialize } = protocol
type Answer = Awaited<ReturnType<PGlite['execProtocolStream']>>
/** What the database said of a statement: the types that it takes, and the message about the columns that it gives. */
type Description = { types: readonly number[]; columns: Answer }

/**
 * Runs statements with parameters in PGlite. Its own `query` enters the database six times for each (parse, describe, bind,
 * describe, execute, sync), which takes longer than most statements do. Here it is two times, and once for a text that comes
 * again and again, which the session keeps prepared.
 */
export class PgliteStatements {
  readonly #pglite: PGlite
  readonly #names = new StatementNames()
  readonly #prepared = new Map<string, Description>()

  constructor(pglite: PGlite) {
    this.#pglite = pglite
  }

  /** In line with the queries and transactions of everybody else. */
  async query<R>(text: string, values: readonly unknown[]): Promise<Results<R>> {
    const pglite = this.#pglite
    await pglite._checkReady()
    return pglite._runExclusiveTransaction(async () => {
      const results = await this.queryInside<R>(text, values).catch((error: unknown) => {
        if (!isOutdatedStatement(error)) throw error
        return this.queryInside<R>(text, values)
      })
      await pglite.syncToFs()
      return results
    })
  }

  /** In the transaction that is open. */
  queryInside<R>(text: string, values: readonly unknown[]): Promise<Results<R>> {
    return this.#pglite.runExclusive(async () => {
      try {
        const name = this.#names.nameOf(text)
        const described = await this.#describe(text, name)
        const asked = [
          serialize.bind({
            statement: name ?? '',
            values: values.map((value, index) => this.#toText(value, described.types[index])),
          }),
          serialize.execute({}),
        ]
        const answer = await this.#send(asked)
        const messages = [...described.columns, ...answer]
        const [results] = parse.parseResults(messages, this.#pglite.parsers)
        return results as Results<R>
      } catch (error) {
        if (isOutdatedStatement(error)) this.#renew()
        throw error
      }
    })
  }

  async #describe(text: string, name: string | undefined): Promise<Description> {
    const known = name === undefined ? undefined : this.#prepared.get(name)
    if (known) return known
    const statement = name ?? ''
    const answer = await this.#send([
      serialize.parse({ name: statement, text }),
      serialize.describe({ type: 'S', name: statement }),
    ])
    const described = {
      types: parse.parseDescribeStatementResults(answer),
      columns: answer.filter((message) => message.name === 'rowDescription'),
    }
    if (name !== undefined) this.#prepared.set(name, described)
    return described
  }

  /** The messages and the end of their series, by which the database settles an error of any of them. */
  #send(messages: readonly Uint8Array[]): Promise<Answer> {
    const series = Buffer.concat([...messages, serialize.sync()])
    return this.#pglite.execProtocolStream(series, { syncToFs: false })
  }

  #toText(value: unknown, type = 0): string | null {
    if (value === null || value === undefined) return null
    const { [type]: serializer } = this.#pglite.serializers
    return serializer ? serializer(value) : String(value)
  }

  #renew(): void {
    this.#names.renew()
    this.#prepared.clear()
  }
}
