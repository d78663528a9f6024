import { access } from './es/access.ts'
import { alerts } from './es/alert-failures.ts'
import { cashier } from './es/cashier.ts'
import { closing } from './es/closing.ts'
import { connect } from './es/connect.ts'
import { databases } from './es/databases.ts'
import { definitionValues } from './es/definition.ts'
import { definitionAddresses } from './es/definition-addresses.ts'
import { definitionDestinations } from './es/definition-destinations.ts'
import { definitionFiles } from './es/definition-files.ts'
import { definitionSources } from './es/definition-sources.ts'
import { deliveries } from './es/deliveries.ts'
import { fields } from './es/fields.ts'
import { files } from './es/files.ts'
import { fleet } from './es/fleet.ts'
import { items } from './es/items.ts'
import { messages } from './es/messages.ts'
import { pauses } from './es/pauses.ts'
import { polls } from './es/polls.ts'
import { refusals } from './es/refusals.ts'
import { sources } from './es/sources.ts'

/** The texts in Spanish. */
export const es = {
  ...pauses,
  ...polls,
  ...sources,
  ...files,
  ...items,
  ...deliveries,
  ...databases,
  ...access,
  ...alerts,
  ...definitionValues,
  ...definitionAddresses,
  ...definitionSources,
  ...definitionDestinations,
  ...definitionFiles,
  ...refusals,
  ...fields,
  ...cashier,
  ...closing,
  ...connect,
  ...fleet,
  ...messages,
} as const
