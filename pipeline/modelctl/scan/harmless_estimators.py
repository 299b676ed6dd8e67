"""The exact names that a pickled scikit-learn model needs, by module, as of scikit-learn 1.9.

An estimator is on the list because its constructor does nothing but keep its parameters, and its state is set as
attributes; a test reads the constructors. The other classes hold fitted numbers. Estimators that keep functions of
other libraries are left out.
"""

from __future__ import annotations

ESTIMATORS: dict[str, str] = {
    "sklearn._loss._loss": (
        "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss CyHalfGammaLoss CyHalfMultinomialLoss "
        "CyHalfPoissonLoss CyHalfSquaredError CyHalfTweedieLoss CyHalfTweedieLossIdentity CyHuberLoss "
        "CyPinballLoss __pyx_unpickle_CyHalfMultinomialLoss"
    ),
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogitLink LogLink MultinomialLogit",
    "sklearn._loss.loss": (
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss "
        "HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss PinballLoss"
    ),
    "sklearn.calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "sklearn.cluster._affinity_propagation": "AffinityPropagation",
    "sklearn.cluster._agglomerative": "AgglomerativeClustering",
    "sklearn.cluster._bicluster": "SpectralBiclustering SpectralCoclustering",
    "sklearn.cluster._birch": "Birch _CFNode _CFSubcluster",
    "sklearn.cluster._dbscan": "DBSCAN",
    "sklearn.cluster._hdbscan.hdbscan": "HDBSCAN",
    "sklearn.cluster._kmeans": "KMeans MiniBatchKMeans",
    "sklearn.cluster._mean_shift": "MeanShift",
    "sklearn.cluster._optics": "OPTICS",
    "sklearn.cluster._spectral": "SpectralClustering",
    "sklearn.compose._column_transformer": "ColumnTransformer",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.covariance._elliptic_envelope": "EllipticEnvelope",
    "sklearn.covariance._empirical_covariance": "EmpiricalCovariance",
    "sklearn.covariance._graph_lasso": "GraphicalLasso GraphicalLassoCV",
    "sklearn.covariance._robust_covariance": "MinCovDet",
    "sklearn.covariance._shrunk_covariance": "LedoitWolf OAS ShrunkCovariance",
    "sklearn.cross_decomposition._pls": "CCA PLSCanonical PLSRegression PLSSVD",
    "sklearn.decomposition._dict_learning": "DictionaryLearning MiniBatchDictionaryLearning SparseCoder",
    "sklearn.decomposition._factor_analysis": "FactorAnalysis",
    "sklearn.decomposition._fastica": "FastICA",
    "sklearn.decomposition._incremental_pca": "IncrementalPCA",
    "sklearn.decomposition._kernel_pca": "KernelPCA",
    "sklearn.decomposition._lda": "LatentDirichletAllocation",
    "sklearn.decomposition._nmf": "MiniBatchNMF NMF",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._sparse_pca": "MiniBatchSparsePCA SparsePCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": (
        "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor RandomTreesEmbedding"
    ),
    "sklearn.ensemble._gb": "GradientBoostingClassifier GradientBoostingRegressor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": (
        "HistGradientBoostingClassifier HistGradientBoostingRegressor"
    ),
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.ensemble._iforest": "IsolationForest",
    "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
    "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "sklearn.feature_extraction._dict_vectorizer": "DictVectorizer",
    "sklearn.feature_extraction._hash": "FeatureHasher",
    "sklearn.feature_extraction.image": "PatchExtractor",
    "sklearn.feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.feature_selection._from_model": "SelectFromModel",
    "sklearn.feature_selection._rfe": "RFE RFECV",
    "sklearn.feature_selection._sequential": "SequentialFeatureSelector",
    "sklearn.feature_selection._univariate_selection": (
        "chi2 f_classif f_regression GenericUnivariateSelect SelectFdr SelectFpr SelectFwe SelectKBest SelectPercentile"
    ),
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.frozen._frozen": "FrozenEstimator",
    "sklearn.gaussian_process._gpc": "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process._gpr": "GaussianProcessRegressor",
    "sklearn.gaussian_process.kernels": (
        "ConstantKernel DotProduct Exponentiation ExpSineSquared Matern Product RationalQuadratic RBF Sum WhiteKernel"
    ),
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.impute._knn": "KNNImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler",
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent": (
        "ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso "
        "MultiTaskLassoCV"
    ),
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._least_angle": "Lars LarsCV LassoLars LassoLarsCV LassoLarsIC",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._omp": "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV",
    "sklearn.linear_model._passive_aggressive": "PassiveAggressiveClassifier PassiveAggressiveRegressor",
    "sklearn.linear_model._perceptron": "Perceptron",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ransac": "RANSACRegressor",
    "sklearn.linear_model._ridge": "Ridge RidgeClassifier RidgeClassifierCV RidgeCV",
    "sklearn.linear_model._sgd_fast": "EpsilonInsensitive Hinge SquaredEpsilonInsensitive SquaredHinge",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDOneClassSVM SGDRegressor",
    "sklearn.linear_model._theil_sen": "TheilSenRegressor",
    "sklearn.manifold._classical_mds": "ClassicalMDS",
    "sklearn.manifold._isomap": "Isomap",
    "sklearn.manifold._locally_linear": "LocallyLinearEmbedding",
    "sklearn.manifold._mds": "MDS",
    "sklearn.manifold._spectral_embedding": "SpectralEmbedding",
    "sklearn.manifold._t_sne": "TSNE",
    "sklearn.metrics._dist_metrics": (
        "ChebyshevDistance64 EuclideanDistance64 ManhattanDistance64 MinkowskiDistance64 newObj"
    ),
    "sklearn.mixture._bayesian_mixture": "BayesianGaussianMixture",
    "sklearn.mixture._gaussian_mixture": "GaussianMixture",
    "sklearn.model_selection._classification_threshold": "FixedThresholdClassifier TunedThresholdClassifierCV",
    "sklearn.model_selection._search": "GridSearchCV RandomizedSearchCV",
    "sklearn.multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
    "sklearn.multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.neighbors._ball_tree": "BallTree newObj",
    "sklearn.neighbors._classification": "KNeighborsClassifier RadiusNeighborsClassifier",
    "sklearn.neighbors._graph": "KNeighborsTransformer RadiusNeighborsTransformer",
    "sklearn.neighbors._kd_tree": "KDTree newObj",
    "sklearn.neighbors._kde": "KernelDensity",
    "sklearn.neighbors._lof": "LocalOutlierFactor",
    "sklearn.neighbors._nca": "NeighborhoodComponentsAnalysis",
    "sklearn.neighbors._nearest_centroid": "NearestCentroid",
    "sklearn.neighbors._regression": "KNeighborsRegressor RadiusNeighborsRegressor",
    "sklearn.neighbors._unsupervised": "NearestNeighbors",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._rbm": "BernoulliRBM",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": (
        "Binarizer KernelCenterer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer "
        "RobustScaler StandardScaler"
    ),
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder MultiLabelBinarizer",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures",
    "sklearn.preprocessing._target_encoder": "TargetEncoder",
    "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
    "sklearn.semi_supervised._label_propagation": "LabelPropagation LabelSpreading",
    "sklearn.semi_supervised._self_training": "SelfTrainingClassifier",
    "sklearn.svm._classes": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "sklearn.tree._classes": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
    "sklearn.tree._tree": "Tree",
    "sklearn.utils._bunch": "Bunch",
}
