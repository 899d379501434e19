//! A server that misbehaves on demand: a few points in memory behind the traits of the protocol, with no engine.
//! It ignores filters, as a server would that has none of the points asked for filtered out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ::qdrant_client::qdrant::collections_server::{Collections, CollectionsServer};
use ::qdrant_client::qdrant::point_id::PointIdOptions;
use ::qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use ::qdrant_client::qdrant::points_server::{Points, PointsServer};
use ::qdrant_client::qdrant::qdrant_server::{Qdrant, QdrantServer};
use ::qdrant_client::qdrant::*;
use tonic::transport::server::{Server, TcpIncoming};
use tonic::{Request, Response, Status};

use crate::config;

/// What a server does with the next call of a method.
pub(super) enum Fault {
    /// Answers with this status.
    Fail(Status),
    /// Does not answer.
    Hang,
}

/// The state behind the server, open to the test.
#[derive(Default)]
pub(super) struct State {
    pub(super) points: BTreeMap<String, RetrievedPoint>,
    pub(super) info: CollectionInfo,
    pub(super) facets: Vec<(String, u64)>,
    /// Faults to come, by method.
    pub(super) faults: HashMap<&'static str, VecDeque<Fault>>,
    /// Every call that was made, with the number of its points (or its limit).
    pub(super) calls: Vec<(&'static str, usize)>,
    /// The status of every write.
    pub(super) status: Option<UpdateStatus>,
    /// Removals that change nothing, although they are confirmed.
    pub(super) deaf_deletes: usize,
    /// What an agent writes right after the next removal.
    pub(super) after_delete: Option<RetrievedPoint>,
    /// Points that one message may hold.
    pub(super) largest: Option<usize>,
    /// The filter of the last scroll or count.
    pub(super) filter: Option<Filter>,
}

impl State {
    pub(super) fn fail(
        &mut self,
        method: &'static str,
        statuses: impl IntoIterator<Item = Status>,
    ) {
        let faults = self.faults.entry(method).or_default();
        faults.extend(statuses.into_iter().map(Fault::Fail));
    }

    pub(super) fn count_calls(&self, method: &str) -> usize {
        self.calls
            .iter()
            .filter(|(name, _)| *name == method)
            .count()
    }
}

/// A running server.
pub(super) struct Fake {
    port: u16,
    state: Arc<Mutex<State>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Clone)]
struct Service(Arc<Mutex<State>>);

impl Fake {
    /// Starts a server whose collection has one unnamed vector of two dimensions.
    pub(super) fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            info: collection_info([("", 2)]),
            ..State::default()
        }));
        let service = Service(Arc::clone(&state));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let port = {
            let _context = runtime.enter();
            let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = incoming.local_addr().unwrap().port();
            let server = Server::builder()
                .add_service(PointsServer::new(service.clone()))
                .add_service(CollectionsServer::new(service.clone()))
                .add_service(QdrantServer::new(service))
                .serve_with_incoming(incoming);
            drop(runtime.spawn(server));
            port
        };
        Self {
            port,
            state,
            _runtime: runtime,
        }
    }

    pub(super) fn config(&self) -> config::Qdrant {
        config::Qdrant {
            url: format!("http://127.0.0.1:{}", self.port),
            rest_url: String::new(),
            api_key: None,
            collection: "memories".into(),
            filter: config::PayloadFilter::default(),
            vector: String::new(),
            timeout: Duration::from_secs(30),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Adds points with these numbers and this payload.
    pub(super) fn add(&self, ids: impl IntoIterator<Item = u64>, payload: &serde_json::Value) {
        let payload: HashMap<String, Value> = payload
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), proto(value)))
            .collect();
        for id in ids {
            self.add_point(RetrievedPoint {
                id: Some(id.into()),
                payload: payload.clone(),
                ..RetrievedPoint::default()
            });
        }
    }

    pub(super) fn add_point(&self, point: RetrievedPoint) {
        let key = key(point.id.as_ref().unwrap());
        self.state().points.insert(key, point);
    }
}

/// A collection with these named vectors; one without a name stands alone.
pub(super) fn collection_info<const N: usize>(vectors: [(&str, u64); N]) -> CollectionInfo {
    let params = |size| VectorParams {
        size,
        distance: Distance::Cosine.into(),
        ..VectorParams::default()
    };
    let config = match vectors {
        _ if N == 1 && vectors[0].0.is_empty() => {
            vectors_config::Config::Params(params(vectors[0].1))
        }
        _ => vectors_config::Config::ParamsMap(VectorParamsMap {
            map: vectors
                .into_iter()
                .map(|(name, size)| (name.to_owned(), params(size)))
                .collect(),
        }),
    };
    CollectionInfo {
        config: Some(CollectionConfig {
            params: Some(CollectionParams {
                vectors_config: Some(VectorsConfig {
                    config: Some(config),
                }),
                ..CollectionParams::default()
            }),
            ..CollectionConfig::default()
        }),
        ..CollectionInfo::default()
    }
}

fn proto(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::String(text) => text.clone().into(),
        serde_json::Value::Number(number) => number.as_i64().unwrap().into(),
        serde_json::Value::Array(list) => Value {
            kind: Some(value::Kind::ListValue(ListValue {
                values: list.iter().map(proto).collect(),
            })),
        },
        serde_json::Value::Object(object) => Value {
            kind: Some(value::Kind::StructValue(Struct {
                fields: object.iter().map(|(k, v)| (k.clone(), proto(v))).collect(),
            })),
        },
        other => panic!("no such payload here: {other}"),
    }
}

fn key(id: &PointId) -> String {
    match id.point_id_options.as_ref().unwrap() {
        PointIdOptions::Num(id) => format!("{id:020}"),
        PointIdOptions::Uuid(id) => id.clone(),
    }
}

impl Service {
    /// Notes a call, and lets it fail or hang when its turn has come.
    async fn enter(&self, method: &'static str, size: usize) -> Result<(), Status> {
        let (fault, largest) = {
            let mut state = self.state();
            state.calls.push((method, size));
            let fault = state.faults.get_mut(method).and_then(VecDeque::pop_front);
            (fault, state.largest)
        };
        match fault {
            Some(Fault::Fail(status)) => Err(status),
            Some(Fault::Hang) => std::future::pending().await,
            None if largest.is_some_and(|largest| size > largest) => Err(Status::out_of_range(
                "Error, decoded message length too large: found 9 bytes, the limit is: 4 bytes",
            )),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn written(&self) -> Response<PointsOperationResponse> {
        let status = self.state().status.unwrap_or(UpdateStatus::Completed);
        Response::new(PointsOperationResponse {
            result: Some(UpdateResult {
                operation_id: Some(1),
                status: status.into(),
            }),
            ..PointsOperationResponse::default()
        })
    }

    async fn do_upsert(&self, request: UpsertPoints) -> Answer<PointsOperationResponse> {
        self.enter("upsert", request.points.len()).await?;
        assert_eq!(request.wait, Some(true));
        assert_eq!(request.update_mode, Some(UpdateMode::InsertOnly.into()));
        for point in request.points {
            let retrieved = RetrievedPoint {
                id: point.id.clone(),
                payload: point.payload,
                vectors: point.vectors.map(output),
                shard_key: request
                    .shard_key_selector
                    .as_ref()
                    .map(|selector| selector.shard_keys[0].clone()),
                ..RetrievedPoint::default()
            };
            self.state()
                .points
                .insert(key(&point.id.unwrap()), retrieved);
        }
        Ok(self.written())
    }

    async fn do_delete(&self, request: DeletePoints) -> Answer<PointsOperationResponse> {
        let Some(PointsSelectorOneOf::Points(list)) =
            request.points.unwrap().points_selector_one_of
        else {
            panic!("only removals by id are harmless");
        };
        self.enter("delete", list.ids.len()).await?;
        assert_eq!(request.wait, Some(true));
        let mut state = self.state();
        if state.deaf_deletes > 0 {
            state.deaf_deletes -= 1;
        } else {
            for id in &list.ids {
                state.points.remove(&key(id));
            }
        }
        if let Some(point) = state.after_delete.take() {
            state.points.insert(key(point.id.as_ref().unwrap()), point);
        }
        drop(state);
        Ok(self.written())
    }

    async fn do_get(&self, request: GetPoints) -> Answer<GetResponse> {
        self.enter("get", request.ids.len()).await?;
        let state = self.state();
        let result = request
            .ids
            .iter()
            .filter_map(|id| state.points.get(&key(id)).cloned())
            .collect();
        Ok(Response::new(GetResponse {
            result,
            ..GetResponse::default()
        }))
    }

    async fn do_scroll(&self, request: ScrollPoints) -> Answer<ScrollResponse> {
        let limit = request.limit.unwrap() as usize;
        self.enter("scroll", limit).await?;
        let mut state = self.state();
        state.filter = request.filter;
        let from = request.offset.as_ref().map(key).unwrap_or_default();
        let mut page: Vec<_> = state
            .points
            .range(from..)
            .take(limit + 1)
            .map(|(_, point)| point.clone())
            .collect();
        let next = if page.len() > limit { page.pop() } else { None };
        Ok(Response::new(ScrollResponse {
            next_page_offset: next.and_then(|point| point.id),
            result: page,
            ..ScrollResponse::default()
        }))
    }

    async fn do_count(&self, request: CountPoints) -> Answer<CountResponse> {
        self.enter("count", 0).await?;
        assert_eq!(request.exact, Some(true));
        let mut state = self.state();
        state.filter = request.filter;
        Ok(Response::new(CountResponse {
            result: Some(CountResult {
                count: state.points.len() as u64,
            }),
            ..CountResponse::default()
        }))
    }

    async fn do_facet(&self, request: FacetCounts) -> Answer<FacetResponse> {
        let limit = usize::try_from(request.limit.unwrap()).unwrap();
        self.enter("facet", limit).await?;
        assert_eq!(request.exact, Some(true));
        let hits = self
            .state()
            .facets
            .iter()
            .take(limit)
            .map(|(name, count)| FacetHit {
                value: Some(FacetValue {
                    variant: Some(facet_value::Variant::StringValue(name.clone())),
                }),
                count: *count,
            })
            .collect();
        Ok(Response::new(FacetResponse {
            hits,
            ..FacetResponse::default()
        }))
    }

    async fn do_info(&self, _: GetCollectionInfoRequest) -> Answer<GetCollectionInfoResponse> {
        self.enter("info", 0).await?;
        Ok(Response::new(GetCollectionInfoResponse {
            result: Some(self.state().info.clone()),
            ..GetCollectionInfoResponse::default()
        }))
    }

    async fn do_list(&self, _: ListCollectionsRequest) -> Answer<ListCollectionsResponse> {
        self.enter("list", 0).await?;
        let collections = ["other", "memories2"].map(|name| CollectionDescription {
            name: name.to_owned(),
        });
        Ok(Response::new(ListCollectionsResponse {
            collections: collections.into(),
            ..ListCollectionsResponse::default()
        }))
    }

    async fn do_health(&self, _: HealthCheckRequest) -> Answer<HealthCheckReply> {
        self.enter("health", 0).await?;
        Ok(Response::new(HealthCheckReply {
            version: "1.17.0".to_owned(),
            ..HealthCheckReply::default()
        }))
    }
}

/// The vectors of a point as a server since 1.16 sends them.
fn output(vectors: Vectors) -> VectorsOutput {
    let one = |vector: Vector| VectorOutput {
        vector: Some(match vector.vector.unwrap() {
            vector::Vector::Dense(vector) => vector_output::Vector::Dense(vector),
            vector::Vector::Sparse(vector) => vector_output::Vector::Sparse(vector),
            vector::Vector::MultiDense(vector) => vector_output::Vector::MultiDense(vector),
            other => panic!("no such vector here: {other:?}"),
        }),
        ..VectorOutput::default()
    };
    let options = vectors.vectors_options.unwrap();
    VectorsOutput {
        vectors_options: Some(match options {
            vectors::VectorsOptions::Vector(vector) => {
                vectors_output::VectorsOptions::Vector(one(vector))
            }
            vectors::VectorsOptions::Vectors(named) => {
                let vectors = named
                    .vectors
                    .into_iter()
                    .map(|(k, v)| (k, one(v)))
                    .collect();
                vectors_output::VectorsOptions::Vectors(NamedVectorsOutput { vectors })
            }
        }),
    }
}

type Answer<T> = Result<Response<T>, Status>;

/// Implements one trait of the protocol: the first methods by those of [`Service`], the rest not at all.
macro_rules! serve {
    ($trait:ident:
        $($method:ident($request:ty) -> $response:ty = $body:ident,)*
        $(; $($other:ident($other_request:ty) -> $other_response:ty,)*)?
    ) => {
        #[tonic::async_trait]
        impl $trait for Service {
            $(async fn $method(&self, request: Request<$request>) -> Answer<$response> {
                self.$body(request.into_inner()).await
            })*
            $($(async fn $other(&self, _: Request<$other_request>) -> Answer<$other_response> {
                Err(Status::unimplemented(stringify!($other)))
            })*)?
        }
    };
}

serve! { Qdrant: health_check(HealthCheckRequest) -> HealthCheckReply = do_health, }

serve! { Collections:
    get(GetCollectionInfoRequest) -> GetCollectionInfoResponse = do_info,
    list(ListCollectionsRequest) -> ListCollectionsResponse = do_list,
    ;
    create(CreateCollection) -> CollectionOperationResponse,
    update(UpdateCollection) -> CollectionOperationResponse,
    delete(DeleteCollection) -> CollectionOperationResponse,
    update_aliases(ChangeAliases) -> CollectionOperationResponse,
    list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse,
    list_aliases(ListAliasesRequest) -> ListAliasesResponse,
    collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse,
    collection_exists(CollectionExistsRequest) -> CollectionExistsResponse,
    update_collection_cluster_setup(UpdateCollectionClusterSetupRequest)
        -> UpdateCollectionClusterSetupResponse,
    create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse,
    delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse,
    list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse,
}

serve! { Points:
    upsert(UpsertPoints) -> PointsOperationResponse = do_upsert,
    delete(DeletePoints) -> PointsOperationResponse = do_delete,
    get(GetPoints) -> GetResponse = do_get,
    scroll(ScrollPoints) -> ScrollResponse = do_scroll,
    count(CountPoints) -> CountResponse = do_count,
    facet(FacetCounts) -> FacetResponse = do_facet,
    ;
    update_vectors(UpdatePointVectors) -> PointsOperationResponse,
    delete_vectors(DeletePointVectors) -> PointsOperationResponse,
    set_payload(SetPayloadPoints) -> PointsOperationResponse,
    overwrite_payload(SetPayloadPoints) -> PointsOperationResponse,
    delete_payload(DeletePayloadPoints) -> PointsOperationResponse,
    clear_payload(ClearPayloadPoints) -> PointsOperationResponse,
    create_field_index(CreateFieldIndexCollection) -> PointsOperationResponse,
    delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse,
    create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse,
    delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse,
    search(SearchPoints) -> SearchResponse,
    search_batch(SearchBatchPoints) -> SearchBatchResponse,
    search_groups(SearchPointGroups) -> SearchGroupsResponse,
    recommend(RecommendPoints) -> RecommendResponse,
    recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse,
    recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse,
    discover(DiscoverPoints) -> DiscoverResponse,
    discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse,
    update_batch(UpdateBatchPoints) -> UpdateBatchResponse,
    query(QueryPoints) -> QueryResponse,
    query_batch(QueryBatchPoints) -> QueryBatchResponse,
    query_groups(QueryPointGroups) -> QueryGroupsResponse,
    search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse,
    search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse,
}
