// Makes each call that the documentation of the npm package braze-api shows, but for those that
// the page Compatibility leaves out.
//
//     client.js BASE_URL KEY PACKAGES
//
// Prints a line for each: its name, a tab, and "passed" or what went wrong.
const [base, key, packages] = process.argv.slice(2)
const { Braze } = require(require.resolve('braze-api', { paths: [packages] }))

const campaign_id = '3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60'
const transactional = '4d8e1b63-9a2f-4d68-8b4f-1e6c2d3f8a71'
const canvas_id = '0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11'
const segment_id = '8a1d0f5e-2c3b-4d6a-9e7f-0123456789ab'
const subscription_group_id = '7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90'
const schedule = { time: '2127-01-01T09:00:00Z', in_local_time: false, at_optimal_time: false }
const alias = (alias_name) => ({ alias_name, alias_label: 'crm' })
const webhook = { webhook: { url: 'https://hooks.example.com/', request_method: 'POST', body: '{}' } }
const recipients = [{ external_user_id: 'ann', trigger_properties: { seats: 2 } }]
const audience = {
  AND: [{ custom_attribute: { custom_attribute_name: 'tier', comparison: 'equals', value: 'gold' } }],
}

const is_success = (answer) => {
  if (answer.message !== 'success') throw new Error(JSON.stringify(answer))
  return answer
}
const has = (name) => (answer) => {
  if (!(name in is_success(answer))) throw new Error(`no ${name}: ${JSON.stringify(answer)}`)
  return answer
}

const cases = {
  'users.track': (braze) => braze.users.track({
    attributes: [{ external_id: 'ann', string_attribute: 'fruit', integer_attribute: 25, braze_id: null }],
    events: [{ external_id: 'ann', name: 'rented_movie', time: '2024-07-16T19:20:30+1:00' }],
    purchases: [{
      user_alias: alias('c-1'), product_id: 'tea', currency: 'USD', price: 12.12,
      time: '2024-07-16T19:20:45+01:00',
    }],
  }).then(has('attributes_processed')),
  'users.alias.new': (braze) => braze.users.alias.new({
    user_aliases: [{ external_id: 'ann', ...alias('c-1') }, alias('c-2')],
  }).then(has('aliases_processed')),
  'users.alias.update': (braze) => braze.users.alias.update({
    alias_updates: [{ alias_label: 'crm', old_alias_name: 'c-1', new_alias_name: 'c-3' }],
  }).then(is_success),
  'users.identify': (braze) => braze.users.identify({
    aliases_to_identify: [{ external_id: 'bob', user_alias: alias('c-2') }],
  }).then(has('aliases_processed')),
  'users.identify by email': (braze) => braze.users.identify({
    emails_to_identify: [{ external_id: 'eve', email: 'eve@example.com', prioritization: ['unidentified'] }],
  }).then(has('aliases_processed')),
  'users.merge': (braze) => braze.users.merge({ merge_updates: [{
    identifier_to_merge: { external_id: 'old' }, identifier_to_keep: { external_id: 'ann' },
  }] }).then(is_success),
  'users.external_ids.rename': (braze) => braze.users.external_ids.rename({
    external_id_renames: [{ current_external_id: 'cay', new_external_id: 'cay-2' }],
  }).then(has('external_ids')),
  'users.external_ids.remove': (braze) =>
    braze.users.external_ids.remove({ external_ids: ['cay'] }).then(has('removed_ids')),
  'users.delete': (braze) =>
    braze.users.delete({ external_ids: ['dan'], braze_ids: [] }).then(has('deleted')),
  'users.export.global_control_group': (braze) => braze.users.export.global_control_group({
    fields_to_export: ['external_id', 'braze_id', 'email'], output_format: 'zip',
  }).then(has('object_prefix')),

  'subscription.status.set': (braze) => braze.subscription.status.set({
    subscription_group_id, subscription_state: 'subscribed', external_id: ['ann'],
    phone: ['+15550100'],
  }).then(is_success),
  'v2.subscription.status.set': (braze) => braze.v2.subscription.status.set({
    subscription_groups: [{
      subscription_group_id, subscription_state: 'unsubscribed', external_ids: ['ann'],
    }],
  }).then(is_success),
  'subscription.status.get': (braze) => braze.subscription.status.get({
    subscription_group_id, external_id: ['ann', 'nobody'],
  }).then(has('status')),

  'catalogs.synchronous.list': (braze) => braze.catalogs.synchronous.list().then(has('catalogs')),
  'catalogs.synchronous.items': async (braze) => {
    const ids = []
    for await (const item of braze.catalogs.synchronous.items({ catalog_name: 'restaurants' })) {
      ids.push(item.id)
    }
    if (ids.length !== 120 || new Set(ids).size !== 120) throw new Error(`${ids.length} items`)
  },
  'catalogs.synchronous.item': (braze) => braze.catalogs.synchronous.item({
    catalog_name: 'restaurants', item_id: 'r100',
  }).then((answer) => {
    if (answer.items[0].City !== 'Oslo') throw new Error(JSON.stringify(answer))
  }),

  'campaigns.list': (braze) =>
    braze.campaigns.list({ page: 0, include_archived: false, sort_direction: 'desc' }).then(has('campaigns')),
  'campaigns.details': (braze) => braze.campaigns.details({ campaign_id }).then(has('channels')),
  'campaigns.trigger.send': (braze) => braze.campaigns.trigger.send({
    campaign_id, send_id: 'send', trigger_properties: { a: 1 }, broadcast: false, recipients,
  }).then(has('dispatch_id')),
  'campaigns.trigger.send to an audience': (braze) => braze.campaigns.trigger.send({
    campaign_id, trigger_properties: { a: 1 }, broadcast: true, audience,
  }).then(has('dispatch_id')),
  'campaigns.trigger.schedule.create, update and delete': async (braze) => {
    const made = await braze.campaigns.trigger.schedule.create({ campaign_id, recipients, schedule })
    const { schedule_id } = has('schedule_id')(made)
    const later = { time: '2127-02-01T09:00:00Z' }
    is_success(await braze.campaigns.trigger.schedule.update({ campaign_id, schedule_id, schedule: later }))
    is_success(await braze.campaigns.trigger.schedule.delete({ campaign_id, schedule_id }))
  },

  'canvas.list': (braze) => braze.canvas.list({ page: 0 }).then(has('canvases')),
  'canvas.trigger.send': (braze) => braze.canvas.trigger.send({
    canvas_id, canvas_entry_properties: { a: 1 }, broadcast: false,
    recipients: [{ external_user_id: 'ann' }],
  }).then(has('dispatch_id')),
  'canvas.trigger.schedule.create, update and delete': async (braze) => {
    const made = await braze.canvas.trigger.schedule.create({ canvas_id, recipients, schedule })
    const { schedule_id } = has('schedule_id')(made)
    const later = { time: '2127-02-01T09:00:00Z' }
    is_success(await braze.canvas.trigger.schedule.update({ canvas_id, schedule_id, schedule: later }))
    is_success(await braze.canvas.trigger.schedule.delete({ canvas_id, schedule_id }))
  },

  'messages.send': (braze) => braze.messages.send({
    external_user_ids: ['ann'], user_aliases: [alias('c-3')], campaign_id, messages: webhook,
    recipient_subscription_state: 'all', override_frequency_capping: false,
  }).then(has('dispatch_id')),
  'messages.schedule.create, update and delete': async (braze) => {
    const made = await braze.messages.schedule.create({
      external_user_ids: ['ann'], schedule, messages: webhook,
    })
    const { schedule_id } = has('schedule_id')(made)
    is_success(await braze.messages.schedule.update({
      schedule_id, schedule: { time: '2127-02-01T09:00:00Z' }, messages: webhook,
    }))
    is_success(await braze.messages.schedule.delete({ schedule_id }))
  },
  'messages.scheduled_broadcasts': async (braze) => {
    await braze.campaigns.trigger.schedule.create({ campaign_id, broadcast: true, audience, schedule })
    const answer = await braze.messages.scheduled_broadcasts({ end_time: '2128-01-01T00:00:00Z' })
    if (is_success(answer).scheduled_broadcasts.length === 0) throw new Error('none')
  },

  'segments.list': (braze) =>
    braze.segments.list({ page: 0, sort_direction: 'desc' }).then(has('segments')),
  'segments.details': (braze) => braze.segments.details({ segment_id }).then(has('name')),

  'transactional.v1.campaigns.send': (braze) => braze.transactional.v1.campaigns.send(transactional, {
    external_send_id: `send-${process.pid}`, trigger_properties: { a: 1 },
    recipient: { external_user_id: 'ann', attributes: { email: 'ann@example.com' } },
  }).then((answer) => {
    if (!answer.dispatch_id) throw new Error(JSON.stringify(answer))
  }),

  'an error': (braze) => braze.campaigns.details({ campaign_id: 'none' }).then(
    () => { throw new Error('it was not refused') },
    (error) => { if (error.status !== 404) throw error },
  ),
}

async function main() {
  const braze = new Braze(base, key)
  for (const [name, call] of Object.entries(cases)) {
    const outcome = await call(braze).then(() => 'passed', (error) => `failed: ${error.status} ${error.message}`)
    console.log(`${name}\t${outcome}`)
  }
}

main()
