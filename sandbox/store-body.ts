import { cityProblem } from './cities.ts'
import { apiError } from './errors.ts'
import type { Location, Store } from './rows.ts'
import { type Fields, isRecord } from './validation-errors.ts'

export type StoreFields = Partial<Pick<Store, 'name' | 'externalId' | 'businessHours' | 'location'>>

const days = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']

/** Checks a store body by provider facts 3.1. Returns only the given fields; throws 400 with the code in capitals. */
export function readStoreBody(body: unknown): StoreFields {
  if (!isRecord(body)) throw apiError(400, 'BAD_REQUEST', 'The body must be an object')
  refuseUnknown(body, ['name', 'external_id', 'location', 'business_hours'])
  return {
    ...(body.name !== undefined && { name: readName(body.name) }),
    ...(body.external_id !== undefined && { externalId: readExternalId(body.external_id) }),
    ...(body.location !== undefined && { location: readLocation(body.location) }),
    ...(body.business_hours !== undefined && {
      businessHours: readHours(body.business_hours),
    }),
  }
}

function refuseUnknown(fields: Fields, known: string[]): void {
  const extra = Object.keys(fields).find((key) => !known.includes(key))
  if (extra !== undefined) throw apiError(400, 'UNKNOWN_FIELD', `Unknown field: ${extra}`)
}

function readName(value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '') {
    throw apiError(400, 'INVALID_NAME', 'name must be a non-empty string')
  }
  return value
}

function readExternalId(value: unknown): string {
  if (typeof value !== 'string' || !/^[A-Za-z0-9]{1,60}$/.test(value)) {
    throw apiError(400, 'VALIDATION_ERROR', 'external_id must be alphanumeric, up to 60 characters')
  }
  return value
}

function readLocation(value: unknown): Location {
  if (!isRecord(value)) throw apiError(400, 'INVALID_LOCATION', 'location must be an object')
  refuseUnknown(value, [
    'street_number',
    'street_name',
    'city_name',
    'state_name',
    'zip_code',
    'latitude',
    'longitude',
    'reference',
  ])
  const text = (key: string) => {
    const member = value[key]
    if (typeof member === 'string' && member.trim() !== '') return member
    throw apiError(400, `INVALID_${key.toUpperCase()}`, `location.${key} must be a string`)
  }
  const degrees = (key: string, limit: number) => {
    const member = value[key]
    if (typeof member === 'number' && Math.abs(member) <= limit) return member
    throw apiError(400, `INVALID_${key.toUpperCase()}`, `location.${key} must be a number`)
  }
  const location = {
    streetNumber: text('street_number'),
    streetName: text('street_name'),
    cityName: text('city_name'),
    stateName: text('state_name'),
    latitude: degrees('latitude', 90),
    longitude: degrees('longitude', 180),
    reference: value.reference === undefined ? null : text('reference'),
  }
  if (value.zip_code !== undefined) text('zip_code')
  const problem = cityProblem(location.stateName, location.cityName)
  if (problem !== undefined) throw apiError(400, problem.code, problem.message)
  return location
}

function readHours(value: unknown): Store['businessHours'] {
  const wrong = (message: string) => apiError(400, 'INVALID_BUSINESS_HOURS', message)
  if (!isRecord(value)) throw wrong('business_hours must be an object')
  const hours: Store['businessHours'] = {}
  for (const [day, spans] of Object.entries(value)) {
    if (!days.includes(day)) throw apiError(400, 'INVALID_DAY', `${day} is not a day`)
    if (!Array.isArray(spans) || spans.length > 4) throw wrong(`${day} takes up to four spans`)
    hours[day] = spans.map((span) => {
      const open: unknown = isRecord(span) ? span.open : undefined
      const close: unknown = isRecord(span) ? span.close : undefined
      if (!isTime(open) || !isTime(close)) throw wrong(`${day} takes {open, close} as HH:MM`)
      return { open, close }
    })
  }
  return hours
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && /^([01]\d|2[0-3]):[0-5]\d$/.test(value)
}
