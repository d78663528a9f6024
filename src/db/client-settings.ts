/** Variables of PostgreSQL's client, and the parameter of an address with the same meaning. */
const parameters: Readonly<Record<string, string>> = {
  PGUSER: 'user',
  PGPASSWORD: 'password',
  PGHOST: 'host',
  PGPORT: 'port',
  PGDATABASE: 'dbname',
  PGSSLMODE: 'sslmode',
  PGSSLCERT: 'sslcert',
  PGSSLKEY: 'sslkey',
  PGSSLROOTCERT: 'sslrootcert',
  PGSSLNEGOTIATION: 'sslnegotiation',
  PGOPTIONS: 'options',
  PGCLIENTENCODING: 'client_encoding',
  PGAPPNAME: 'application_name',
}

/** Whether a driver of PostgreSQL or Firebird reads the variable by itself. */
export function isClientSetting(name: string): boolean {
  return /^(?:PG[A-Z_]+|ISC_(?:USER|PASSWORD)|FIREBIRD_[A-Z]+)$/.test(name)
}

/**
 * The address of the service's database with what the variables add to it, as the driver would take them. What the address
 * itself says counts.
 */
export function withClientSettings(
  databaseUrl: string,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const url = URL.parse(databaseUrl)
  if (!url) return databaseUrl
  const before = url.href
  for (const [variable, parameter] of Object.entries(parameters)) {
    const value = env[variable]
    if (value && !url.searchParams.has(parameter)) addTo(url, parameter, value)
  }
  return url.href === before ? databaseUrl : url.href
}

/** User, password, port and database stand in the address itself, and only where it has none. */
function addTo(url: URL, parameter: string, value: string): void {
  switch (parameter) {
    case 'user':
      url.username ||= encodeURIComponent(value)
      break
    case 'password':
      url.password ||= encodeURIComponent(value)
      break
    case 'port':
      url.port ||= value
      break
    case 'dbname':
      if (url.pathname.length <= 1) url.pathname = `/${encodeURIComponent(value)}`
      break
    case 'host':
      if (url.hostname === '') url.searchParams.set(parameter, value)
      break
    default:
      url.searchParams.set(parameter, value)
  }
}
