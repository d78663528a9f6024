/** As much of the driver as a read needs; it brings no types of its own. */
declare module 'oracledb' {
  /** A type of the database; its name begins with DB_TYPE_. */
  export type DbType = { readonly name: string }
  export type Column = {
    name: string
    dbType: DbType
    precision?: number
    scale?: number
  }
  /** A large object is fetched by a question of its own. */
  export type Lob = { getData(): Promise<string | Buffer | null> }
  export type ResultSet = {
    getRows(count: number): Promise<unknown[][]>
    close(): Promise<void>
  }
  export type Connection = {
    /** Longest wait for one answer, in milliseconds; a server that does not even take the break is left. */
    callTimeout: number
    execute(
      text: string,
      values?: Readonly<Record<string, { val: string; type: DbType }>>,
      options?: {
        resultSet: true
        fetchArraySize: number
        prefetchRows: number
        outFormat: number
        fetchTypeHandler: (column: Column) => { type: DbType } | undefined
      },
    ): Promise<{ metaData?: Column[]; resultSet?: ResultSet }>
    /** Has the server give up what it works at. */
    break(): Promise<void>
    close(): Promise<void>
  }
  export type Driver = {
    OUT_FORMAT_ARRAY: number
    DB_TYPE_CHAR: DbType
    DB_TYPE_VARCHAR: DbType
    getConnection(options: {
      user: string
      password: string
      connectString: string
      connectTimeout: number
    }): Promise<Connection>
  }
  const driver: Driver
  export default driver
}
